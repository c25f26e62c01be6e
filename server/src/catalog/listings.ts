import { createHash } from 'node:crypto'
import { mapInTurns } from '../infra/turns.ts'
import type { Timers } from '../lib/time.ts'
import { type Catalog, type Modality, type Model, type ResolvedModel, tiersOf } from './model.ts'
import { minuteOfDay } from './peak.ts'
import { modelToWire } from './wire.ts'

/** JSON that is ready to be sent, and its name. */
export interface Listing {
  readonly bytes: Uint8Array
  /** Strong: from the bytes alone, so that it is the same in every process and after a restart. */
  readonly etag: string
}

/** The listings of one catalog at an instant, each made when it is first asked for. */
export interface Listings {
  /** Made in short turns: there may be thousands of models. */
  list(modality: Modality | null, instantMs: number): Promise<Listing>
  model(resolved: ResolvedModel, instantMs: number): Listing
}

/**
 * As many listings as there are tiers and modalities, at most: `resolved` always comes from the catalog, never from the
 * client. They are made anew where an edge of some model's peak windows lies between two instants that are asked for.
 */
export function listingsOf(catalog: Catalog, timers: Timers): Listings {
  const edges = edgesOf(catalog)
  const lists = new Map<Modality | null, Promise<Listing>>()
  const models = new Map<ResolvedModel['tier'], Listing>()
  let made = -1
  const turnTo = (instantMs: number) => {
    const stretch = stretchOf(edges, instantMs)
    if (stretch === made) return
    made = stretch
    lists.clear()
    models.clear()
  }
  return {
    list(modality, instantMs) {
      turnTo(instantMs)
      const listed = catalog.models.filter((model) => modality === null || model.modality === modality)
      return remembered(lists, modality, () => makeList(listed, instantMs, timers))
    },
    model({ model, tier }, instantMs) {
      turnTo(instantMs)
      return remembered(models, tier, () => listingOf(JSON.stringify(modelToWire(model, tier, instantMs))))
    },
  }
}

/** The minutes of the day at which some price changes. */
function edgesOf(catalog: Catalog): readonly number[] {
  const edges = tiersOf(catalog).flatMap(({ price }) =>
    price.kind === 'tokens_by_time'
      ? price.peakWindows.flatMap(({ startMinute, endMinute }) => [startMinute, endMinute])
      : [],
  )
  return [...new Set(edges)]
}

/** Which stretch of the day between two edges an instant is in; the same on every day. */
function stretchOf(edges: readonly number[], instantMs: number): number {
  const minute = minuteOfDay(instantMs)
  let passed = 0
  for (const edge of edges) if (edge <= minute) passed += 1
  return passed
}

function remembered<Key, Made>(made: Map<Key, Made>, key: Key, make: () => Made): Made {
  const known = made.get(key)
  if (known !== undefined) return known
  const remembered = make()
  made.set(key, remembered)
  return remembered
}

/** Returns the `ModelList` of the interface. */
async function makeList(models: readonly Model[], instantMs: number, timers: Timers): Promise<Listing> {
  const write = (model: Model) => JSON.stringify(modelToWire(model, model.serverless, instantMs))
  const written = await mapInTurns(models, write, timers)
  return listingOf(`{"object":"list","data":[${written.join(',')}]}`)
}

function listingOf(text: string): Listing {
  const bytes = new TextEncoder().encode(text)
  return { bytes, etag: `"${createHash('sha256').update(bytes).digest('base64url')}"` }
}
