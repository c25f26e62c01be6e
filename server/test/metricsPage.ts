/** The metrics page of a gateway in this process. */

import type { App } from '../src/app/app.ts'
import { until } from './until.ts'

/** Returns the whole page. */
export async function metricsPage(app: App): Promise<string> {
  return (await app.handleAdmin(new Request('http://admin.test/metrics'))).text()
}

/** Returns one figure. The name is given without `tollgate_`, and with its labels; NaN where the page has none of it. */
export async function metric(app: App, name: string): Promise<number> {
  const start = `tollgate_${name} `
  const line = (await metricsPage(app)).split('\n').find((each) => each.startsWith(start))
  return Number(line?.slice(start.length) ?? Number.NaN)
}

/** Resolves when the figure is this one. */
export function untilMetric(app: App, name: string, figure: number): Promise<void> {
  return until(async () => (await metric(app, name)) === figure)
}
