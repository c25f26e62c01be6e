/**
 * The rules of the house that no linter knows. Each failure names the place and says what to do. Types, `any`, unused
 * code and formatting are the business of tsc, biome and knip, which `npm run check` runs before this.
 */

import { describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  breaksOrder,
  isHttpFile,
  isRoomOpener,
  MAY_IMPORT,
  OPEN_TO_ALL,
  roomOf,
  wiredAs,
  wiringRank,
} from './tidy/house.ts'
import { findCycles, importGraph, isPure } from './tidy/imports.ts'
import { CHECKOUT, codeOf, isTest, placeOf, readSources, type Source } from './tidy/sources.ts'

const sources = readSources()
const typeScript = sources.filter(({ path }) => path.endsWith('.ts'))
const graph = importGraph(sources)
const inSource = typeScript.filter(({ path }) => path.startsWith('server/src/') && !isTest(path))
const codes = new Map(inSource.map((source) => [source, codeOf(source)]))

const LINES_AT_MOST = 400

/** Nothing may be found; what is found is shown, each with what to do about it. */
function expectNone(found: readonly string[], whatToDo: string): void {
  expect(found.map((place) => `${place}: ${whatToDo}`)).toEqual([])
}

/** Places in `server/src` outside `allowed` whose code, comments left out, matches. */
function placesInCode(pattern: RegExp, allowed: (path: string) => boolean): string[] {
  const places: string[] = []
  for (const [source, code] of codes) {
    if (allowed(source.path.slice('server/src/'.length))) continue
    const match = pattern.exec(code)
    if (match !== null) places.push(`${placeOf(source, match[0].trim())} (${match[0].trim()})`)
  }
  return places
}

/** Places in any of our files whose text matches. */
function placesInText(among: readonly Source[], pattern: RegExp): string[] {
  return among.flatMap((source) => {
    const match = pattern.exec(source.text)
    return match === null ? [] : [`${placeOf(source, match[0])} (${match[0]})`]
  })
}

function importsWhere(refused: (from: string, to: string) => boolean): string[] {
  const found: string[] = []
  for (const [from, targets] of graph) {
    for (const to of targets) if (refused(from, to)) found.push(`server/src/${from} imports ${to}`)
  }
  return found
}

describe('imports run one way', () => {
  test('every folder of server/src has its place in the order', () => {
    const rooms = [...graph.keys()].filter(
      (path) => wiringRank(path) === null && MAY_IMPORT[roomOf(path)] === undefined,
    )
    expectNone(rooms, 'add its folder to the table in server/test/tidy/house.ts, with what it may import')
  })

  test('a room imports only the rooms before it', () => {
    const found = importsWhere((from, to) => breaksOrder(from, to))
    expectNone(found, 'the order of rooms is in server/test/tidy/house.ts; take what you need as an argument instead')
  })

  test('no room imports what wires it', () => {
    const found = importsWhere((from, to) => {
      const [own, target] = [wiringRank(from), wiringRank(to)]
      if (target === null) return false
      return own === null || own < target || (own === target && wiredAs(from) !== wiredAs(to))
    })
    expectNone(found, 'imports run config ← routes ← app ← commands ← main; pass it down as an argument')
  })

  test("a room's store.ts is its own", () => {
    const found = importsWhere(
      (from, to) =>
        to.endsWith('/store.ts') &&
        wiringRank(from) === null &&
        dirname(from) !== dirname(to) &&
        !isRoomOpener(from, to),
    )
    expectNone(found, "call the room's verb, or write one; only its own files may use its store")
  })

  test('http.ts is imported by the routes.ts of its room alone, and that by the open.ts of its room alone', () => {
    const found = importsWhere((from, to) => {
      if (OPEN_TO_ALL.has(roomOf(to)) || !isHttpFile(to) || wiringRank(to) !== null) return false
      return to.endsWith('/http.ts')
        ? !from.endsWith('/routes.ts') || roomOf(from) !== roomOf(to)
        : !isRoomOpener(from, to)
    })
    expectNone(found, 'move what both need into a noun (wire.ts, schemas.ts) or a verb')
  })

  test('a store.ts uses nouns, and no verb', () => {
    const found = importsWhere(
      (from, to) => from.endsWith('/store.ts') && !OPEN_TO_ALL.has(roomOf(to)) && !isPure(graph, to),
    )
    expectNone(found, 'a store holds queries; what decides or calls belongs into the verb that calls the store')
  })

  test('the system clock and randomness are handed in where a program starts', () => {
    const starts = new Set([
      ...['main.ts', 'commands/system.ts', 'providers/gguf/child.ts'],
      'instances/drivers/process/keeper.ts',
    ])
    const found = importsWhere((from, to) => /^infra\/(clock|random)\.ts$/.test(to) && !starts.has(from))
    expectNone(found, 'take a Clock or RandomBytes as an argument (lib/time.ts, lib/ids.ts)')
  })

  test('there are no rings and no barrels', () => {
    expectNone(findCycles(graph), 'break the ring: move what both need into a file of its own')
    expectNone(placesInText(typeScript, /^export \* from.*/m), 'import from the file that has it')
    const barrels = typeScript.filter(({ path }) => path.endsWith('/index.ts')).map(({ path }) => path)
    expectNone(barrels, 'name the file after what it holds')
  })

  test('every relative import names a file, with its ending', () => {
    expectNone(
      importsWhere((_, to) => !existsSync(join(CHECKOUT, 'server/src', to))),
      'write the file name with .ts',
    )
  })
})

describe('the outside world is reached in one place each', () => {
  test('process.env in config/config.ts', () => {
    const found = placesInCode(/process\.env\b/, (path) => path === 'config/config.ts')
    expectNone(found, 'read it in server/src/config/config.ts and pass the value down')
  })

  test('the clock and timers in infra/clock.ts', () => {
    const pattern =
      /\b(Date\.now|performance\.now|process\.hrtime|setTimeout|setInterval|AbortSignal\.timeout|Bun\.sleep|new Date\(\)|timers\/promises)/
    const found = placesInCode(pattern, (path) => path === 'infra/clock.ts')
    expectNone(found, 'take a Clock (lib/time.ts) as an argument: its now, monotonicMs and after')
  })

  test('randomness in infra/', () => {
    // The token between gateway and child must be nobody's choice, and the ids of the child's answers are kept nowhere.
    // A listener names its pings at random, so that it takes no other process's ping for its own.
    const allowed = (path: string) =>
      path.startsWith('infra/') || path.startsWith('providers/gguf/') || path === 'processes/listen.ts'
    const pattern =
      /\b(Math\.random|getRandomValues|randomUUID|import \{[^}]*\brandomBytes\b[^}]*\} from "(node:)?crypto")/
    expectNone(placesInCode(pattern, allowed), 'take RandomBytes (lib/ids.ts) as an argument')
  })

  test('the global Bun in infra/, the listener and main.ts', () => {
    const found = placesInCode(
      /(?<![."'`\w-])Bun\b(?=[.\s[(])|from "bun[":]/,
      (path) => path.startsWith('infra/') || path === 'processes/listen.ts' || path === 'main.ts',
    )
    expectNone(found, 'put what needs Bun behind a function in server/src/infra, so that Node stays a way out')
  })

  test('fetch in infra/', () => {
    // A HEAD request of the operator's command `models pull`, with a deadline of its own; no call goes through it.
    const allowed = (path: string) => path.startsWith('infra/') || path === 'providers/gguf/hub.ts'
    expectNone(
      placesInCode(/(?<![.\w])fetch\(/, allowed),
      'use infra/httpClient.ts, which has deadlines and counts bytes',
    )
  })

  test('SQL in store.ts', () => {
    const pattern =
      /["'`]\s*(select\s|insert into|delete from|update \w+( as \w+| \w)? set|with \w+ as \(|create (table|index)|alter table)|\.query(<[^(]*>)?\(/
    const found = placesInCode(pattern, (path) => path.endsWith('/store.ts') || path.startsWith('infra/postgres/'))
    expectNone(found, "make it a named function in the room's store.ts")
  })

  test('output through the log', () => {
    expectNone(
      placesInCode(/\bconsole\.\w+/, () => false),
      'use the Log that is handed in; commands print by their context',
    )
  })
})

describe("the customer's command line stands alone", () => {
  const inCli = typeScript.filter(({ path }) => path.startsWith('cli/src/') && !isTest(path))
  const placesInCli = (pattern: RegExp, allowed: readonly string[]) =>
    inCli
      .filter(({ path }) => !allowed.includes(path))
      .flatMap((source) => {
        const match = pattern.exec(codeOf(source))
        return match === null ? [] : [`${placeOf(source, match[0].trim())} (${match[0].trim()})`]
      })

  test("it imports its own files, the server's pure library and its packages", () => {
    const allowed =
      /^(node:|(commander|eventsource-parser|@napi-rs\/keyring)$|cli\/(src\/|package\.json$)|server\/src\/lib\/)/
    const found = inCli.flatMap(({ path, text }) =>
      [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)]
        .map(([, target = '']) => (target.startsWith('.') ? join(dirname(path), target) : target))
        .filter((target) => !allowed.test(target))
        .map((target) => `${path} imports ${target}`),
    )
    expectNone(found, 'it talks HTTP only: move what both need into server/src/lib, or ask the server')
  })

  test('it reaches the operating system in few places, and never by Bun', () => {
    const system = ['cli/src/main.ts', 'cli/src/openSystem.ts', 'cli/src/input.ts']
    const hint = 'take it from the System (cli/src/system.ts)'
    expectNone(placesInCli(/process\.(env|argv|exit|std\w+)\b/, system), hint)
    const clock =
      /\b(Date\.now|performance\.now|setTimeout|setInterval|AbortSignal\.timeout|new Date\(\)|timers\/promises)/
    expectNone(placesInCli(clock, ['cli/src/openSystem.ts']), hint)
    const outside = /(?<![.\w])fetch\(|\b(Math\.random|randomUUID|console\.\w+)|(?<![."'`\w-])Bun\b(?=[.\s[(])/
    expectNone(placesInCli(outside, ['cli/src/openSystem.ts']), hint)
  })
})

describe('files', () => {
  test('each room and each dialect has a README.md', () => {
    const folders = new Set<string>()
    for (const path of graph.keys()) {
      const room = roomOf(path)
      if (MAY_IMPORT[room] === undefined || OPEN_TO_ALL.has(room)) continue
      const [, inner = ''] = dirname(path).split('/')
      folders.add(room === 'providers' && inner !== '' ? `${room}/${inner}` : room)
    }
    const isTold = (folder: string) => existsSync(join(CHECKOUT, 'server/src', folder, 'README.md'))
    folders.add('billing')
    const missing = [...folders].filter((folder) => !isTold(folder))
    expectNone(missing, 'write server/src/<folder>/README.md: what it owns, what it does not, states, invariants')
  })

  test('names are camelCase', () => {
    const name = /^(.*\/)?[a-z][a-zA-Z0-9]*(\.long)?(\.test|\.d)?\.ts$/
    const found = typeScript.map(({ path }) => path).filter((path) => !name.test(path))
    expectNone(found, 'rename it, such as loadModel.ts, loadModel.test.ts, loadModel.long.test.ts')
  })

  test(`none has more than ${LINES_AT_MOST} lines`, () => {
    const code = sources.filter(({ path }) => /\.(ts|mjs|sql)$/.test(path))
    const long = code.filter(({ text }) => text.split('\n').length - 1 > LINES_AT_MOST).map(({ path }) => path)
    expectNone(long, 'split it by what it does; aim at 200')
  })

  test('no path of a file is taken from a URL as it stands: a blank is %20 there', () => {
    expectNone(
      typeScript.flatMap(({ path, text }) => (/import\.meta\.url\)\.pathname/.test(text) ? [path] : [])),
      'use import.meta.dirname, or give the URL itself',
    )
  })

  test('links between documents lead somewhere', () => {
    const broken: string[] = []
    for (const { path, text } of sources) {
      if (!path.endsWith('.md')) continue
      for (const [, target = ''] of text.matchAll(/\]\(([^)#\s]+)[^)]*\)/g)) {
        if (/^[a-z]+:/.test(target) || existsSync(join(CHECKOUT, dirname(path), target))) continue
        broken.push(`${path} (${target})`)
      }
    }
    expectNone(broken, 'mend the link; it is relative to the document')
  })
})

describe('nothing is left lying about', () => {
  // Put together here, so that this file does not find itself.
  const word = (...parts: string[]) => parts.join('')
  const others = sources.filter(({ path }) => path !== 'server/test/tidy.test.ts')

  test('no work is left for later', () => {
    const found = placesInText(
      others,
      new RegExp(`\\b(${word('TO', 'DO')}|${word('FIX', 'ME')}|${word('X', 'XX')}|HACK)\\b`),
    )
    expectNone(found, 'do it now, or say in prose what is so and why')
  })

  test('no check is switched off', () => {
    const found = placesInText(others, /biome-ignore|eslint-disable|@ts-(ignore|nocheck|expect-error)|knip-ignore/)
    expectNone(found, 'mend what the check finds')
  })

  test('nothing names a machine of ours', () => {
    const paths = /(?<![\w.-])\/(home|Users|root|work)\/[\w.]+/
    expectNone(placesInText(others, paths), 'write a path relative to the checkout, or one that every machine has')
    const hosts = new RegExp(`registry\\.npm${'js'}\\.org|deb\\.deb${'ian'}\\.org|files\\.python${'hosted'}\\.org`)
    expectNone(placesInText(others, hosts), 'name the package, not the host that it comes from')
  })
})
