"""Rules of Sigma in, rules of Cepheid out: detections, correlations and filters."""
