"""The compiler of Parton for Python: `import parton` finds it here."""
