"""From a configuration to runs and paths: settings, the plan, what it costs, and what steps depend on."""
