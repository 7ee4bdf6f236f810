"""What of the chart in helm/weir is written from the model of its values (`configs.service.chart_values`)."""
