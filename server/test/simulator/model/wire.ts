import type { SqlParameter } from '../../../src/infra/postgres/database.ts'

/** The parameters of a statement, read as their columns would read them. Positions count from 1, as in the SQL. */
export class Parameters {
  private readonly values: readonly SqlParameter[]

  constructor(values: readonly SqlParameter[]) {
    this.values = values
  }

  text(position: number): string {
    return String(this.values[position - 1])
  }

  textOrNull(position: number): string | null {
    const value = this.values[position - 1] ?? null
    return value === null ? null : String(value)
  }

  amount(position: number): bigint {
    return BigInt(this.text(position))
  }

  amountOrNull(position: number): bigint | null {
    const text = this.textOrNull(position)
    return text === null ? null : BigInt(text)
  }

  number(position: number): number {
    return Number(this.text(position))
  }

  instant(position: number): number {
    const value = this.values[position - 1]
    return value instanceof Date ? value.getTime() : Date.parse(String(value))
  }

  list(position: number): (string | null)[] {
    return parseArray(this.text(position))
  }

  amounts(position: number): (bigint | null)[] {
    return this.list(position).map((text) => (text === null ? null : BigInt(text)))
  }
}

/** Reads a PostgreSQL array literal: `{1,null,"a \"quoted\" text"}`. */
function parseArray(literal: string): (string | null)[] {
  const found: (string | null)[] = []
  const item = /"((?:[^"\\]|\\.)*)"|([^",{}]+)/gs
  for (const [, quoted, bare] of literal.matchAll(item)) {
    if (quoted !== undefined) found.push(quoted.replaceAll(/\\(.)/gs, '$1'))
    else found.push(bare === 'null' ? null : (bare ?? ''))
  }
  return found
}
