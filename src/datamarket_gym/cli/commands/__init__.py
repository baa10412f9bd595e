"""The commands; see `datamarket_gym.cli.app`."""
