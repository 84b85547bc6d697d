"""One readable training loop that can be stopped anywhere and goes on bit for bit."""
