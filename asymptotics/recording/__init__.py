"""What the theory does with its numbers, recorded, and written in other languages."""
