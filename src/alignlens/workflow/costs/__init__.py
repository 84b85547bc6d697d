"""What a plan costs before it runs: sizes of texts, counted work, measured rates, every job, sums, growth."""
