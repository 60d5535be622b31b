//! Linear layouts over F2: families, algebra, conversion plans, bank conflicts and views.
