import { Gauge as PrometheusGauge, type Registry } from 'prom-client'
import type { Gauge, LabelledGauge } from '../lib/gauge.ts'

/** Adds gauges to a registry; each is read whenever its page is asked for. Labelled gauges of one name are one metric. */
export function showGauges(registry: Registry, gauges: readonly Gauge[]): void {
  const registers = [registry]
  const labelled = new Map<string, LabelledGauge[]>()
  for (const gauge of gauges) {
    if ('readEach' in gauge) {
      labelled.set(gauge.name, [...(labelled.get(gauge.name) ?? []), gauge])
      continue
    }
    const { name, help, read } = gauge
    new PrometheusGauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  }
  for (const [name, parts] of labelled) {
    const [{ help, labelNames } = { help: '', labelNames: [] }] = parts
    new PrometheusGauge({
      name,
      help,
      labelNames: [...labelNames],
      registers,
      collect() {
        this.reset()
        for (const { readEach } of parts) for (const [labels, value] of readEach()) this.set({ ...labels }, value)
      },
    })
  }
}
