/** A real cluster on which the gateway has the rights that docs/instances.md prints and no others, and whose quotas are counted. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { testController } from './controller.ts'
import { type ClusterPrograms, type RealCluster, startCluster } from './realCluster.ts'

const KINDS = ['ClusterRole', 'ClusterRoleBinding', 'ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding']

export async function openRuledCluster(programs: ClusterPrograms): Promise<RealCluster> {
  const cluster = await startCluster(programs)
  await applyRights(cluster)
  let isOver = false
  const counting = countQuotas(cluster, () => isOver)
  return {
    ...cluster,
    async stop() {
      isOver = true
      await counting
      await cluster.stop()
    },
  }
}

/** Applies what the documentation prints, as it stands there. */
async function applyRights({ admin }: RealCluster): Promise<void> {
  const text = await readFile(join(import.meta.dirname, '../../../docs/instances.md'), 'utf8')
  const blocks = [...text.matchAll(/```yaml\n(apiVersion: [\s\S]*?)```/g)].map(([, block = '']) => block)
  const objects = blocks.flatMap((block) => parseAllDocuments(block).map((document) => document.toJS()))
  const kinds = objects.map(({ kind }) => kind)
  if (kinds.join() !== KINDS.join()) throw new Error(`docs/instances.md prints ${kinds.join(', ')}`)
  for (const object of objects) {
    const resource = object.kind.endsWith('y') ? `${object.kind.slice(0, -1)}ies` : `${object.kind}s`
    await admin.call('POST', `/apis/${object.apiVersion}/${resource.toLowerCase()}`, object)
  }
}

/** Counts quotas until it is over: one that nobody has counted refuses everything. */
async function countQuotas({ admin }: RealCluster, isOver: () => boolean): Promise<void> {
  const controller = testController(admin)
  while (!isOver()) {
    await controller.countQuotas().catch(() => {})
    await Bun.sleep(20)
  }
}
