"""Where data and cheats come from: data sets, encoders, tasks, markets, attacks."""
