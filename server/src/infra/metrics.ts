import { Registry } from 'prom-client'
import type { Gauge } from '../lib/gauge.ts'
import { type CallMetrics, createCallMetrics } from './callMetrics.ts'
import { showGauges } from './gauges.ts'
import { createMoneyMetrics, type MoneyMetrics } from './moneyMetrics.ts'
import { createUsageMetrics, type UsageMetrics } from './usageMetrics.ts'
import { createQueueGauges, createWorkMetrics, type QueueFigures, type WorkMetrics } from './workMetrics.ts'

/** The Prometheus metrics of one process. Labels hold routes, codes and provider names, never anything a client wrote. */
export interface Metrics extends WorkMetrics, CallMetrics, UsageMetrics, MoneyMetrics {
  /** Shows gauges from now on. Labelled gauges of the same name are shown as one. */
  show(gauges: readonly Gauge[]): void
  /** Returns the page for Prometheus. `queues` is what waits in the database; null: it can't be told now. */
  text(queues: QueueFigures | null): Promise<string>
  readonly contentType: string
}

export function createMetrics(): Metrics {
  const registry = new Registry()
  const { videoSeconds, ...work } = createWorkMetrics(registry)
  const showQueues = createQueueGauges(registry)
  const residentMemory = () => process.memoryUsage.rss()
  showGauges(registry, [
    { name: 'tollgate_resident_memory_bytes', help: 'Resident memory of the process.', read: residentMemory },
  ])

  return {
    ...work,
    ...createCallMetrics(registry),
    ...createUsageMetrics(registry, videoSeconds),
    ...createMoneyMetrics(registry),
    show: (gauges) => showGauges(registry, gauges),
    async text(queues) {
      showQueues(queues)
      return registry.metrics()
    },
    contentType: registry.contentType,
  }
}
