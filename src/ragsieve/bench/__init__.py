"""What judging a corpus costs on this machine, with every quicker way compared to the whole one."""
