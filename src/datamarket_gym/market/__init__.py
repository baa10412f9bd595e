"""Markets of providers: data sets, encoders, tasks, and the attacks that providers may mount."""
