"""Generator of the chart's files in helm/weir that follow from the model of its values (`configs.service.chart_values`)."""
