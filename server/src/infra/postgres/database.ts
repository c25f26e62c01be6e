/** The interface of PostgreSQL to stores. The real one is `client.ts`; nothing else implements it. */

export type SqlParameter = string | number | bigint | boolean | null | Date | Uint8Array

/** Something that runs statements: the pool, or one open transaction. */
export interface Queryable {
  /**
   * Runs one statement with `$1 …` parameters, prepared once for each connection. int8 comes back as bigint, bytea as
   * Uint8Array, timestamptz as Date, jsonb parsed; numeric comes back as a string (`sum` of int8 is one: cast it).
   * Lists are passed with `arrayLiteral` and a cast: `$1::text::uuid[]`, JSON as its text: `$1::text::jsonb` (without
   * the first cast the text would become one JSON string). The statement alone decides each parameter's type: where
   * the context leaves it open, cast. Without parameters the text is not prepared and may hold several statements.
   */
  query<Row>(text: string, parameters?: readonly SqlParameter[]): Promise<Row[]>
}

/** Marks functions that must run inside their caller's transaction. */
export interface Transaction extends Queryable {
  readonly isTransaction: true
}

/**
 * Work that joins another's transaction. It may run again when the outcome of a commit is unknown, and does no harm then.
 * Returns false if the request is another process's now: the transaction must not be committed (`joinAll.ts`).
 */
export type Participant = (tx: Transaction) => Promise<boolean>
export const NO_PARTICIPANTS: readonly Participant[] = []

export interface Database extends Queryable {
  /**
   * Runs `work` in one READ COMMITTED transaction; rolls back and rethrows when it throws. `owner`: the organization that asks for it
   * and whose rows it locks. Only a few transactions of one owner run at a time in this process; the others wait without a connection,
   * so that one customer can't use up the pool. Where 1,000 wait, it rejects with `Refused` (`rate_limit_exceeded`) before the work
   * begins: work that must be done whatever a customer sends, such as a charge, a settlement or a job, names no owner. A transaction
   * that names an owner must not wait for another one of the same owner.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>, owner?: string): Promise<T>
  /** Closes the pool, waiting at most a few seconds for statements under way. */
  close(): Promise<void>
}

/** A PostgreSQL array literal of values that need no escaping (uuids, numbers) or are escaped here (text); null stays null. */
export function arrayLiteral(values: readonly (string | number | bigint | boolean | null)[]): string {
  let text = '{'
  for (let index = 0; index < values.length; index += 1) {
    if (index > 0) text += ','
    const value = values[index] ?? null
    text += typeof value === 'string' ? `"${escaped(value)}"` : String(value)
  }
  return `${text}}`
}

/**
 * The same, of values that stand without quotes: uuids, numbers, instants, and words of ours that are not `null`. Unlike
 * {@link arrayLiteral} it looks at none of them.
 */
export function plainArrayLiteral(values: readonly (string | number | bigint | boolean)[]): string {
  return `{${values.join(',')}}`
}

function escaped(value: string): string {
  // Nearly nothing needs it, and looking is cheaper than replacing.
  if (!value.includes('"') && !value.includes('\\')) return value
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')
}
