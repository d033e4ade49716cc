"""Claims on softmax attention."""
