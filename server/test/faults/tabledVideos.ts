import type { Database } from '../../src/infra/postgres/database.ts'
import { ProviderFailure, type VideoWork } from '../../src/providers/dialect/spec.ts'
import { testVideo } from '../scriptedVideos.ts'

/** A provider whose jobs outlive the process that asks: they stand in a table. A job fails whose prompt is `fails`. */
export function tabledVideos(database: Database, finds: boolean): VideoWork {
  const find = async (where: string, value: string) => {
    const rows = await database.query<{ id: bigint; prompt: string; seconds: number }>(
      `select id, prompt, seconds from test_provider where ${where} = $1`,
      [value],
    )
    return rows[0] ?? null
  }
  const work: VideoWork = {
    async submit({ attemptId, prompt, seconds }) {
      const [row] = await database.query<{ id: bigint }>(
        'insert into test_provider (attempt, prompt, seconds) values ($1::uuid, $2, $3::integer) returning id',
        [attemptId, prompt, seconds],
      )
      return `${row?.id}`
    },
    async look(id) {
      const job = await find('id::text', id)
      if (job === null) return { kind: 'unknown' }
      if (job.prompt !== 'fails') return { kind: 'done' }
      return { kind: 'failed', code: 'upstream_error', detail: 'as it was told' }
    },
    async download(id) {
      const job = await find('id::text', id)
      if (job === null) throw new ProviderFailure('unavailable', 'there is no such job')
      return new Response(testVideo(job.seconds)).body ?? new ReadableStream()
    },
    async cancel(id) {
      await database.query('update test_provider set cancelled = true where id::text = $1', [id])
    },
  }
  if (finds) work.find = async (attemptId) => (await find('attempt::text', attemptId))?.id.toString() ?? null
  return work
}

export const TABLE = `create table test_provider (id bigserial primary key, attempt uuid, prompt text, seconds integer,
  cancelled boolean not null default false)`
