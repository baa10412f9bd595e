"""The page "Market": choose a market, a cheat and a mechanism, and see who is paid what, and what is proven."""
