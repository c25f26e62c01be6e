import { isAbsolute } from 'node:path'
import { z } from 'zod'
import type { Path, Report } from './document.ts'
import { amountOf, cents, microcents } from './loadAmount.ts'
import { KubernetesDriverShape, loadKubernetesDriver, refuseForCluster } from './loadKubernetes.ts'
import type { AccessSettings, GpuType, InstanceApp, InstanceDriverSettings, InstanceSettings } from './offering.ts'
import { UNIT_PRICE_MAX_MICROCENTS } from './price.ts'
import { closed, seconds, whole } from './shape.ts'

/** Far more than anyone offers. */
const ENTRIES_MAX = 200

/** More than any machine has, in GB. */
const GIGABYTES_MAX = 1_000_000

const GPUS_MAX = 64

const name = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, "must be 1 to 64 of a-z, 0-9, '.', '_' and '-', the first a letter or digit")

const gigabytes = whole(0, GIGABYTES_MAX)

const argument = z.string().min(1).max(4_096)

const GpuTypeShape = closed({
  name,
  vram_gb: whole(1, GIGABYTES_MAX),
  count: whole(1, GPUS_MAX).default(1),
  price_per_hour_cents: cents(UNIT_PRICE_MAX_MICROCENTS),
  price_per_hour_microcents: microcents(UNIT_PRICE_MAX_MICROCENTS),
  disk_gb_max: gigabytes,
  disk_gb_total: gigabytes.optional(),
})

const AppShape = closed({
  name,
  image: argument.optional(),
  command: z.array(argument).min(1).max(100).optional(),
  port: whole(1, 65_535),
  terminal: z.boolean().default(false),
  vram_gb_min: gigabytes.default(0),
  models: z
    .array(closed({ name: z.string().min(1).max(200), vram_gb: gigabytes }))
    .max(ENTRIES_MAX)
    .default([]),
})

const CommandDriverShape = closed({
  kind: z.literal('command'),
  path: z.string().refine(isAbsolute, "must be the absolute path of an executable, such as '/usr/local/bin/my-cloud'"),
  timeout_seconds: seconds(1, 600).default(60),
})

/** Apps find these folders empty, so theirs can't be in one of them. */
const SCRATCH = /^\/(run|tmp|var\/run|var\/tmp|dev|proc|sys)(\/|$)/

/** Below are users of the system, above what some file systems can't store. */
const LOWEST_UID = 10_000
const HIGHEST_UID = 2_000_000_000
/** Above the ids that systems give to users and, for their containers, to users and services. */
const DEFAULT_UID = 1_900_000_000

const MEGABYTE = 1_000_000

const ProcessDriverShape = closed({
  kind: z.literal('process'),
  directory: z
    .string()
    .refine(
      (path) => isAbsolute(path) && path !== '/' && !SCRATCH.test(path),
      "must be the absolute path of a folder that stays, such as '/var/lib/tollgate-instances'",
    )
    .default('/var/lib/tollgate-instances'),
  first_uid: whole(LOWEST_UID, HIGHEST_UID).default(DEFAULT_UID),
  machines: whole(1, 1_000).default(8),
  memory_mb: whole(16, 100_000_000).default(4_096),
  cpus: z.number().min(0.1).max(1_024).default(1),
  tasks: whole(8, 100_000).default(512),
})

/** Of http: a URL needs none. */
const USUAL_PORT = 80
/** Any free port. */
const ANY_PORT = 0

export const InstancesShape = closed({
  driver: z.discriminatedUnion('kind', [CommandDriverShape, ProcessDriverShape, KubernetesDriverShape], {
    error: (issue) => (issue.code === 'invalid_union' ? "must be 'command', 'process' or 'kubernetes'" : undefined),
  }),
  host: z
    .string()
    .regex(
      /^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z][a-z0-9-]*[a-z0-9](:[1-9]\d{0,4})?$/,
      "must be a host name in lower case, such as 'apps.example.com'",
    )
    .max(200)
    .optional(),
  port: whole(0, 65_535).default(8_081),
  cover_seconds: whole(120, 3_600).default(600),
  create_timeout_seconds: whole(10, 3_600).default(900),
  live_instances: whole(1, 1_000).default(20),
  gpu_types: z.array(GpuTypeShape).min(1, "must have one '- name: …' at least").max(ENTRIES_MAX),
  apps: z.array(AppShape).min(1, "must have one '- name: …' at least").max(ENTRIES_MAX),
}).optional()

type Section = NonNullable<z.infer<typeof InstancesShape>>

/** Reads the section `instances`; null where it is not good, which is reported. */
export function loadInstances(
  section: Section,
  publicUrl: string | undefined,
  path: Path,
  report: Report,
): InstanceSettings | null {
  refuseOwnHost(section, publicUrl, path, report)
  const { driver } = section
  const gpuTypes = section.gpu_types.map((entry, index) => loadGpuType(entry, [...path, 'gpu_types', index], report))
  const apps = section.apps.map((entry, index) => loadApp(entry, driver.kind, [...path, 'apps', index], report))
  if (driver.kind === 'process') refuseForHost(section, path, report)
  if (driver.kind === 'kubernetes') refuseForCluster(driver, section, path, report)
  refuseTwice(section.gpu_types, [...path, 'gpu_types'], report)
  refuseTwice(section.apps, [...path, 'apps'], report)
  const good = gpuTypes.filter((each): each is GpuType => each !== null)
  const goodApps = apps.filter((each): each is InstanceApp => each !== null)
  if (good.length < gpuTypes.length || goodApps.length < apps.length) return null
  return {
    driver: loadDriver(section),
    access: loadAccess(section),
    coverSeconds: section.cover_seconds,
    createTimeoutMs: section.create_timeout_seconds * 1_000,
    liveMost: section.live_instances,
    gpuTypes: good,
    apps: goodApps,
  }
}

function loadDriver({ driver, live_instances, gpu_types }: Section): InstanceDriverSettings {
  if (driver.kind === 'kubernetes') {
    const gpusMost = live_instances * Math.max(...gpu_types.map(({ count }) => count))
    return loadKubernetesDriver(driver, { liveMost: live_instances, gpusMost })
  }
  if (driver.kind === 'command') {
    return { kind: 'command', path: driver.path, timeoutMs: Math.round(driver.timeout_seconds * 1_000) }
  }
  return {
    kind: 'process',
    directory: driver.directory,
    firstUid: driver.first_uid,
    machinesMost: driver.machines,
    memoryBytes: driver.memory_mb * MEGABYTE,
    cpus: driver.cpus,
    tasksMost: driver.tasks,
  }
}

function loadAccess({ host, port }: Section): AccessSettings | null {
  if (host === undefined) return null
  const isSecure = !/(^|\.)localhost(:\d+)?$/.test(host)
  // On one machine there is no proxy in front: callers reach our own port. The number of a free one is not known here.
  const hasPort = isSecure || host.includes(':') || port === USUAL_PORT || port === ANY_PORT
  return { host: hasPort ? host : `${host}:${port}`, port, isSecure }
}

/** An app that had the host of our pages, or one above it, could set and read what belongs to them. */
function refuseOwnHost({ host }: Section, publicUrl: string | undefined, path: Path, report: Report): void {
  if (host === undefined || publicUrl === undefined || !URL.canParse(publicUrl)) return
  const [own, apps] = [new URL(publicUrl).hostname, host.replace(/:\d+$/, '')]
  if (own === apps || own.endsWith(`.${apps}`)) {
    report([...path, 'host'], 'must not be the host of public_url, nor one above it: apps get hosts of their own')
  }
}

/** Says what the driver `process` can't give an app. */
function refuseForHost({ apps, host }: Section, path: Path, report: Report): void {
  if (host === undefined)
    report(path, "needs 'host' with the driver 'process', whose apps answer through the gateway alone")
  for (const [index, { command, models, terminal }] of apps.entries()) {
    const at = [...path, 'apps', index]
    if (command === undefined) report(at, "needs a 'command' with the driver 'process', which starts no images")
    if (command !== undefined && !isAbsolute(command[0] ?? '')) {
      report([...at, 'command', 0], "must be the absolute path of a program, such as '/usr/local/bin/llama-server'")
    }
    if (models.length === 0 && command?.some((word) => word.includes('{model}')) === true) {
      report(at, "needs 'models': its command has a place for one, and it is not started without")
    }
    if (terminal) report([...at, 'terminal'], "must be false with the driver 'process', which has no terminals")
  }
}

function loadGpuType(entry: Section['gpu_types'][number], path: Path, report: Report): GpuType | null {
  const gpuHourMicrocents = amountOf(entry, 'price_per_hour', path, report)
  if (gpuHourMicrocents === null) report(path, "needs 'price_per_hour_cents', the price of an hour of one GPU")
  const total = entry.disk_gb_total ?? null
  if (total !== null && total < entry.disk_gb_max) {
    report([...path, 'disk_gb_max'], 'must be at most disk_gb_total, the disk of all instances together')
  }
  if (gpuHourMicrocents === null || gpuHourMicrocents === 'refused') return null
  return {
    name: entry.name,
    vramGb: entry.vram_gb,
    count: entry.count,
    gpuHourMicrocents,
    diskGbMax: entry.disk_gb_max,
    diskGbTotal: total,
  }
}

function loadApp(
  entry: Section['apps'][number],
  kind: Section['driver']['kind'],
  path: Path,
  report: Report,
): InstanceApp | null {
  // On a cluster a command is one within the image.
  if (kind !== 'kubernetes' && (entry.image === undefined) === (entry.command === undefined)) {
    report(path, "needs either 'image' or 'command'")
    return null
  }
  return {
    name: entry.name,
    image: entry.image ?? null,
    command: entry.command ?? null,
    port: entry.port,
    terminal: entry.terminal,
    vramGbMin: entry.vram_gb_min,
    models: entry.models.map(({ name, vram_gb: vramGb }) => ({ name, vramGb })),
  }
}

function refuseTwice(entries: readonly { readonly name: string }[], path: Path, report: Report): void {
  const seen = new Set<string>()
  for (const [index, entry] of entries.entries()) {
    if (seen.has(entry.name)) report([...path, index, 'name'], 'is the name of an entry above: change one of them')
    seen.add(entry.name)
  }
}
