import { createHash } from 'node:crypto'
import type { Catalog, Modality, Served } from './model.ts'
import { toWire } from './wire.ts'

/** JSON that is ready to be sent, and its name. */
export interface Page {
  readonly bytes: Uint8Array
  /** Strong: from the bytes alone, so that it is the same in every process and after a restart. */
  readonly etag: string
}

/** The pages of one catalog, each made when it is first asked for. */
export interface Pages {
  list(modality: Modality | null): Page
  model(served: Served): Page
}

/** As many pages as there are tiers, at most: `served` always comes from the catalog, never from the client. */
export function pagesOf(catalog: Catalog): Pages {
  const lists = new Map<Modality | null, Page>()
  const models = new Map<Served['tier'], Page>()
  return {
    list: (modality) =>
      remembered(lists, modality, () => {
        const listed = catalog.models.filter((model) => modality === null || model.modality === modality)
        return { object: 'list', data: listed.map((model) => toWire(model, model.serverless)) }
      }),
    model: ({ model, tier }) => remembered(models, tier, () => toWire(model, tier)),
  }
}

function remembered<Key>(pages: Map<Key, Page>, key: Key, content: () => object): Page {
  const known = pages.get(key)
  if (known !== undefined) return known
  const bytes = new TextEncoder().encode(JSON.stringify(content()))
  const page: Page = { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url')}"` }
  pages.set(key, page)
  return page
}
