/** How much of a plan's tokens may be used. Weighted: a model of usage factor 2 spends two per token. */
export interface PlanQuota {
  /** Of a period, at least 1. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** Input and output together over the last 7 days, at least 1. */
  readonly weeklyTokens: number
  /** Of a period, by list price; 0: there is none. */
  readonly backstopMicrocents: bigint
}

/** A flat tier that organizations may be subscribed to. */
export interface Plan {
  /** What subscriptions name it by. */
  readonly key: string
  /** For people. */
  readonly name: string
  readonly quota: PlanQuota
}
