"""The page of experiments: any result folder as heat maps, pictures and tables, beside the paper's numbers."""
