/** Statements as PostgreSQL carries them out, with the rows that each reads, by its own module `auto_explain`. */

import type { Database } from '../../src/infra/postgres/database.ts'

/** A node of a plan as it was carried out, by the names that PostgreSQL gives its fields. */
interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly Plans?: readonly PlanNode[]
}

/** One statement, carried out once. */
export interface Explained {
  /** In one line. */
  readonly text: string
  /** Rows of tables that were looked at, those that did not fit among them. */
  readonly read: number
  readonly returned: number
  /** Tables that were read from end to end. */
  readonly scanned: readonly string[]
}

/** Read at once of the server's log. */
const PIECE_BYTES = 8 << 20

/** Has the server write its log where {@link readExplained} finds it. It is to be started again after this. */
export async function prepareExplaining(superuser: Database): Promise<void> {
  const settings = {
    logging_collector: 'on',
    log_destination: "'jsonlog'",
    log_rotation_size: '0',
    log_rotation_age: '0',
  }
  for (const [name, value] of Object.entries(settings)) await superuser.query(`alter system set ${name} = ${value}`)
}

/**
 * Connections that are opened from now on log what each of their statements reads. Without `seqScans` a table is read from end to
 * end only where no index serves. `superuser` has one connection.
 */
export async function startExplaining(
  superuser: Database,
  { seqScans }: { readonly seqScans: boolean },
): Promise<void> {
  await superuser.query("load 'auto_explain'")
  const settings = {
    session_preload_libraries: "'auto_explain'",
    'auto_explain.log_min_duration': '0',
    'auto_explain.log_analyze': 'on',
    'auto_explain.log_timing': 'off',
    'auto_explain.log_format': "'json'",
    'auto_explain.log_parameter_max_length': '0',
    enable_seqscan: seqScans ? 'on' : 'off',
  }
  for (const [name, value] of Object.entries(settings)) await superuser.query(`alter system set ${name} = ${value}`)
  await superuser.query('select pg_reload_conf()')
}

export async function stopExplaining(superuser: Database): Promise<void> {
  for (const name of ['session_preload_libraries', 'auto_explain.log_min_duration', 'enable_seqscan'])
    await superuser.query(`alter system reset ${name}`)
  await superuser.query('select pg_reload_conf()')
}

/** Returns every statement that was explained so far, in their order. */
export async function readExplained(superuser: Database): Promise<Explained[]> {
  const decoder = new TextDecoder()
  let text = ''
  for (let offset = 0; ; offset += PIECE_BYTES) {
    const [row] = await superuser.query<{ piece: Uint8Array }>(
      `select pg_read_binary_file(pg_current_logfile('jsonlog'), $1::bigint, $2::bigint) as piece`,
      [offset, PIECE_BYTES],
    )
    if (row === undefined || row.piece.length === 0) break
    text += decoder.decode(row.piece, { stream: true })
  }
  return text.split('\n').flatMap((line) => explainedOf(line) ?? [])
}

function explainedOf(line: string): Explained | null {
  if (!line.includes(' plan:')) return null
  const { message } = JSON.parse(line) as { readonly message: string }
  const plan = message.slice(message.indexOf('{'))
  const { 'Query Text': text, Plan: root } = JSON.parse(plan) as {
    readonly 'Query Text': string
    readonly Plan: PlanNode
  }
  const nodes = nodesOf(root).filter(isScan)
  const scanned = nodes.filter((node) => node['Node Type'] === 'Seq Scan' && loopsOf(node) > 0)
  return {
    text: text.replace(/\s+/g, ' ').trim(),
    read: Math.round(nodes.reduce((sum, node) => sum + lookedAt(node), 0)),
    returned: Math.round((root['Actual Rows'] ?? 0) * loopsOf(root)),
    scanned: [...new Set(scanned.map((node) => node['Relation Name'] ?? ''))],
  }
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)]
}

function isScan(node: PlanNode): boolean {
  return node['Relation Name'] !== undefined && node['Node Type'].endsWith('Scan')
}

function loopsOf(node: PlanNode): number {
  return node['Actual Loops'] ?? 0
}

/** PostgreSQL tells these counts for one loop, on average. */
function lookedAt(node: PlanNode): number {
  const removed = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)
  return ((node['Actual Rows'] ?? 0) + removed) * loopsOf(node)
}
