/** A finished video with a large file that takes no room on the disk: what is read of it are zeros. */

import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { systemRandom } from '../src/infra/random.ts'
import { uuidV7 } from '../src/lib/ids.ts'
import { DAY_MS, toTimestamp } from '../src/lib/time.ts'
import type { TestKey } from './customer.ts'
import type { Gateway } from './gateway.ts'

/** Makes the video, which is kept for a day from `nowMs`; returns the path of its content. */
export async function makeHollowVideo(gateway: Gateway, key: TestKey, bytes: number, nowMs: number): Promise<string> {
  const id = uuidV7(nowMs, systemRandom())
  const name = `video-${id}-1.mp4`
  const folder = join(gateway.dataDirectory, 'artifacts', 'videos')
  await mkdir(folder, { recursive: true })
  const file = await open(join(folder, name), 'w')
  await file.truncate(bytes)
  await file.close()
  await gateway.database.query(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds, status,
       completed_at, expires_at, artifact, artifact_bytes)
     values ($1::uuid, $2::uuid, $3::uuid, 'epoch', 'svc/film', 'serverless', '', 1, 4, 'completed', $6::timestamptz,
       $7::timestamptz, $4, $5::bigint)`,
    [id, key.organizationId, key.id, name, bytes, toTimestamp(nowMs), toTimestamp(nowMs + DAY_MS)],
  )
  return `/v1/videos/${id}/content`
}
