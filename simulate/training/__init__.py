"""What all trainings share: the loop, the steps it takes, checkpoints, results and files."""
