/**
 * First keys of the two-key advisory locks that this folder takes. Each name is one class; the second key says which
 * of the class. Advisory locks belong to one database of a server, so these can't meet another program's locks unless
 * it shares our database.
 */
export const LOCK_CLASS = {
  /** Held, for one transaction at a time, by who applies migrations. */
  migrations: 7_401,
  /** Held shared by every process that uses an embedded database; who gets it exclusively may stop the server. */
  inUse: 7_402,
  /** Held by the one gateway process, or group of processes, that serves from a data directory. */
  ownership: 7_403,
  /** Held by a gateway process for as long as it lives; the second key is its slot. */
  slot: 7_404,
  /** Held, for one transaction at a time, by who drops charges that are past their retention, or closes days and months. */
  retention: 7_405,
  /** Held, for one transaction, by who makes the role of the gateways in an embedded database. */
  gatewayRole: 7_406,
  /** Held, for one transaction at a time, by who sums usage of an organization; the second key is its hash. */
  usageSums: 7_407,
  /** Held, for one transaction at a time, by who folds the whole of a dead process's slot; the second key is the slot. */
  slotFold: 7_408,
  /** Held, for one transaction, by the start that makes the first organization and key. */
  firstStart: 7_420,
} as const
