"""Findings handed to other tools: JSON lines, SARIF, OCSF and one page of HTML."""
