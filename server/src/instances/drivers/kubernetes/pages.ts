/** Lists of the API, page by page. */

import { z } from 'zod'
import { ClusterFailure, exceptAt } from './clusterFailure.ts'

/** Some megabytes of pods. */
const PAGE = 250

/** Pages of one list: 20,000 objects. */
const PAGES_MOST = 80

/** A list that takes so long that the API has forgotten how it began is asked for again. */
const BEGUN_MOST = 3

export interface PageAsked {
  readonly limit: number
  readonly _continue?: string
}

export interface WholeList<T> {
  readonly items: readonly T[]
  /** From which on changes can be watched. */
  readonly version: string
}

/** Returns a list as it was at one instant. Throws where it has more than 20,000 objects, or where one can't be read. */
export async function listAll<T>(
  asked: (page: PageAsked) => Promise<unknown>,
  item: z.ZodType<T>,
): Promise<WholeList<T>> {
  for (let begun = 1; begun <= BEGUN_MOST; begun += 1) {
    const list = await exceptAt(410, readPages(asked, item), null)
    if (list !== null) return list
  }
  throw new ClusterFailure(410, 'the cluster forgot the list before it was read')
}

async function readPages<T>(asked: (page: PageAsked) => Promise<unknown>, item: z.ZodType<T>): Promise<WholeList<T>> {
  const shape = z.object({
    metadata: z.object({ _continue: z.string().nullish(), resourceVersion: z.string().nullish() }),
    items: z.array(item),
  })
  const items: T[] = []
  let after: string | null = null
  for (let pages = 0; pages < PAGES_MOST; pages += 1) {
    const page = shape.safeParse(await asked(after === null ? { limit: PAGE } : { limit: PAGE, _continue: after }))
    if (!page.success) throw new ClusterFailure(0, "the cluster gave a list that can't be read")
    items.push(...page.data.items)
    after = page.data.metadata._continue ?? ''
    if (after === '') return { items, version: page.data.metadata.resourceVersion ?? '' }
  }
  throw new ClusterFailure(0, 'the cluster has more objects of ours than 20,000')
}
