"""What is published: a source archive and a wheel, and the proof that the wheel works alone."""
