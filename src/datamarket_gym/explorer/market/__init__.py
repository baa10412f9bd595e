"""The page "Market": choose a market, an attack and a mechanism, and see who is paid what, and what is proven."""
