import { z } from 'zod'
import type { Catalog } from '../../catalog/model.ts'
import { apiKeyOrSession } from '../../http/access.ts'
import { MANAGE, type Route } from '../../http/route.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { CHARGES_PARAMETERS, chargePage, chargesQuery, showCharges } from './charges/http.ts'
import { entriesQuery, entryPage, showEntries } from './entries/http.ts'
import {
  EXPORT_PARAMETERS,
  type ExportDependencies,
  exportQuery,
  exportRow,
  exportTable,
  showExport,
} from './exports/http.ts'
import { showStatement, statement } from './months/http.ts'
import { createStatementReader } from './months/read.ts'

const READ = apiKeyOrSession('billing:read', 'member')

interface StatementRouteDependencies extends ExportDependencies {
  readonly reads: Queryable
  readonly catalog: () => Catalog
}

/** Beneath /manage/v1. */
export function statementRoutes({ reads, ...dependencies }: StatementRouteDependencies): Route[] {
  const lists = { ...dependencies, database: reads }
  return [
    {
      base: MANAGE,
      method: 'GET',
      path: '/charges',
      access: READ,
      query: CHARGES_PARAMETERS,
      handle: showCharges(lists),
      describe: {
        operationId: 'listCharges',
        summary: 'List charges, the newest first',
        description:
          'Of calls that were admitted, and of minutes of instances that began, in a window of time; of one key or model if you name it.',
        requestParams: { query: chargesQuery },
        responses: { 200: { description: 'A page.', content: { 'application/json': chargePage } } },
      },
    },
    exportRoute(dependencies),
    {
      base: MANAGE,
      method: 'GET',
      path: '/ledger',
      access: READ,
      query: ['limit', 'cursor'],
      handle: showEntries(lists),
      describe: {
        operationId: 'listLedgerEntries',
        summary: 'List the entries of the ledger, the newest first',
        description: 'Credits, refunds and adjustments: all that changed the balance but charges.',
        requestParams: { query: entriesQuery },
        responses: { 200: { description: 'A page.', content: { 'application/json': entryPage } } },
      },
    },
    {
      base: MANAGE,
      method: 'GET',
      path: '/statements/{month}',
      access: READ,
      handle: showStatement(createStatementReader(lists)),
      describe: {
        operationId: 'getStatement',
        summary: 'Read the statement of a month',
        description:
          'Everything that was posted in a UTC month: credits by their source, charges by their model, and the balance before and after. ' +
          'The closing balance is the opening balance of the next month. A month is closed about an hour after its end.',
        requestParams: { path: z.object({ month: z.string().meta({ description: '`YYYY-MM`, UTC.' }) }) },
        responses: { 200: { description: 'The statement.', content: { 'application/json': statement } } },
        refusals: [404],
      },
    },
  ]
}

function exportRoute(dependencies: ExportDependencies): Route {
  return {
    base: MANAGE,
    method: 'GET',
    path: '/charges/export',
    access: READ,
    query: EXPORT_PARAMETERS,
    takesPlace: true,
    handle: showExport(dependencies),
    describe: {
      operationId: 'exportCharges',
      summary: 'Export everything that was posted in a window of days',
      description:
        'All charges and all entries of the ledger, a row each. The sum of `amount_microcents` over all rows is the closing balance less ' +
        'the opening balance. Charges of days that are past retention are kept as sums: `dropped_day` rows name these days. ' +
        'If the export breaks off, resume it with `after` and `as_of`. Two exports may be open at once for a key, each for an hour. ' +
        'Days that ended an hour ago or earlier are whole.',
      requestParams: { query: exportQuery },
      responses: {
        200: {
          description: 'The rows, as JSON lines or CSV.',
          content: { 'application/jsonl': exportRow, 'text/csv': exportTable },
          headers: {
            'Content-Disposition': {
              description: 'A file name for the export.',
              required: true,
              schema: { type: 'string' },
            },
          },
        },
      },
    },
  }
}
