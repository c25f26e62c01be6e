/** A database that explains its statements, for tests of what they read. */

import type { Queryable } from '../src/infra/postgres/database.ts'

/** A node of an explained plan, as PostgreSQL names its fields. */
export interface PlanNode {
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Relation Name'?: string
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly PlanNode[]
}

interface Explained {
  readonly 'QUERY PLAN': string | readonly { readonly Plan: PlanNode }[]
}

/** Hands the plan of each statement to `see`, as it was carried out, and then answers the statement. Only for statements that read. */
export function explaining(database: Queryable, see: (plan: PlanNode) => void): Queryable {
  return {
    async query(text, parameters) {
      const explained = await database.query<Explained>(`explain (analyze, buffers, format json) ${text}`, parameters)
      for (const { 'QUERY PLAN': plans } of explained) {
        for (const { Plan } of typeof plans === 'string' ? JSON.parse(plans) : plans) see(Plan)
      }
      return await database.query(text, parameters)
    },
  }
}
