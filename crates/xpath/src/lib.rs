//! The xpath engine.
