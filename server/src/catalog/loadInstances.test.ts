/** The section `instances` of the settings: what is read of it, and what is refused. */

import { expect, test } from 'bun:test'
import { loadSettings } from './load.ts'

const CONTEXT = { environment: {}, directory: '/', fileExists: () => true }

const GOOD = `instances:
  driver: { kind: command, path: /bin/cloud }
  gpu_types:
    - { name: a100, vram_gb: 80, count: 4, price_per_hour_microcents: 123456789, disk_gb_max: 100, disk_gb_total: 500 }
  apps:
    - { name: server, image: 'server:1', port: 8080, models: [{ name: small, vram_gb: 20 }] }
    - { name: tool, command: [/bin/tool, --fast], port: 80, terminal: true, vram_gb_min: 8 }
`

function load(text: string) {
  const loaded = loadSettings(text, CONTEXT)
  if (loaded.ok) return loaded.settings.fixed.instances
  return loaded.problems.map(({ path, reason }) => `${path}: ${reason}`)
}

test('is read with its defaults', () => {
  expect(load(GOOD)).toEqual({
    driver: { kind: 'command', path: '/bin/cloud', timeoutMs: 60_000 },
    access: null,
    ...{ coverSeconds: 600, createTimeoutMs: 900_000, liveMost: 20 },
    gpuTypes: [
      { name: 'a100', vramGb: 80, count: 4, gpuHourMicrocents: 123_456_789n, diskGbMax: 100, diskGbTotal: 500 },
    ],
    apps: [
      {
        ...{ name: 'server', image: 'server:1', command: null, port: 8080, terminal: false, vramGbMin: 0 },
        models: [{ name: 'small', vramGb: 20 }],
      },
      {
        ...{ name: 'tool', image: null, command: ['/bin/tool', '--fast'], port: 80, terminal: true, vramGbMin: 8 },
        models: [],
      },
    ],
  })
})

test('the driver of this host is read with its defaults, and its bounds', () => {
  const text = GOOD.replace(
    '{ kind: command, path: /bin/cloud }',
    '{ kind: process, machines: 2, memory_mb: 100, cpus: 0.5 }\n  host: apps.example.com',
  )
    .replace("image: 'server:1'", 'command: [/bin/server]')
    .replace('terminal: true', 'terminal: false')
  expect(load(text)).toMatchObject({
    driver: {
      ...{ kind: 'process', directory: '/var/lib/tollgate-instances', firstUid: 1_900_000_000, machinesMost: 2 },
      ...{ memoryBytes: 100_000_000, cpus: 0.5, tasksMost: 512 },
    },
  })
})

test.each([
  ['an image', ['', ''], "instances.apps[0]: needs a 'command' with the driver 'process'"],
  ['a terminal', ['', ''], 'instances.apps[1].terminal: must be false'],
  ['a command that is looked for', ['/bin/tool', 'tool'], 'instances.apps[1].command[0]: must be the absolute path'],
  [
    'a folder that apps find empty',
    ['kind: process', 'kind: process, directory: /tmp/x'],
    'instances.driver.directory',
  ],
  ['users of the system', ['kind: process', 'kind: process, first_uid: 1000'], 'instances.driver.first_uid'],
])('%s is refused with the driver of this host', (_name, [from = '', to = ''], says) => {
  const text = GOOD.replace('{ kind: command, path: /bin/cloud }', '{ kind: process }\n  host: apps.example.com')
  const problems = load(text.replace(from, to))
  expect(Array.isArray(problems) ? problems.join('\n') : problems).toContain(says)
})

/** With the driver of a cluster. */
const CLUSTER = GOOD.replace(
  '{ kind: command, path: /bin/cloud }',
  "{ kind: kubernetes, kubeconfig: /etc/kubeconfig, reached_from: [tollgate], gpus: [{ gpu_type: a100, nodes: { gpu: 'A100' } }] }",
)
  .replace('command: [/bin/tool, --fast]', "image: 'tool:1', command: [/bin/tool, --fast]")
  .replace('terminal: true', 'terminal: false')

test('the driver of a cluster is read with its defaults, and the quota that follows', () => {
  expect(load(`${CLUSTER}  live_instances: 3\n`)).toMatchObject({
    driver: {
      ...{ kind: 'kubernetes', kubeconfig: '/etc/kubeconfig', context: null, namespacePrefix: 'tollgate-' },
      ...{ reachedFrom: ['tollgate'], internet: false, timeoutMs: 10_000, podsMost: 6, gpusMost: 12 },
      gpus: [{ gpuType: 'a100', resource: 'nvidia.com/gpu', nodes: { gpu: 'A100' }, cpus: 4, memoryMb: 16_384 }],
    },
    apps: [
      { image: 'server:1', command: null },
      { image: 'tool:1', command: ['/bin/tool', '--fast'] },
    ],
  })
})

test.each([
  [
    'an app without an image',
    ["image: 'tool:1', ", ''],
    "instances.apps[1]: needs an 'image' with the driver 'kubernetes'",
  ],
  ['a terminal', ['terminal: false', 'terminal: true'], 'instances.apps[1].terminal: must be false'],
  [
    'a relative kubeconfig',
    ['/etc/kubeconfig', 'kubeconfig'],
    'instances.driver.kubeconfig: must be the absolute path',
  ],
  ['a context of none', ['kubeconfig: /etc/kubeconfig', 'context: a'], "instances.driver.context: needs 'kubeconfig'"],
  ['nobody who reaches apps', ['[tollgate]', '[]'], 'instances.driver.reached_from: must name a namespace'],
  ['no namespace', ['[tollgate]', '[Toll_gate]'], 'instances.driver.reached_from[0]: must be the name of a namespace'],
  ['a prefix without an end', ['kind:', 'namespace_prefix: toll, kind:'], "must begin with a letter and end with '-'"],
  ["the cluster's prefix", ['kind:', 'namespace_prefix: kube-, kind:'], "must not begin with 'kube-'"],
  ['a GPU type that is not sold', ['gpu_type: a100', 'gpu_type: b200'], "must be a name of 'gpu_types'"],
  [
    'a GPU type without its nodes',
    ['  apps:', '    - { name: b200, vram_gb: 1, price_per_hour_cents: 1, disk_gb_max: 1 }\n  apps:'],
    "needs an entry '- gpu_type: b200'",
  ],
  ['a label that is none', ["gpu: 'A100'", "gpu: 'A 100'"], 'must be the value of a label'],
  ['a resource without a domain', ['nodes:', 'resource: gpu, nodes:'], "must have a domain, such as 'nvidia.com/gpu'"],
  [
    'two GPU types with the same nodes',
    ["nodes: { gpu: 'A100' } }", "nodes: { gpu: 'A100' } }, { gpu_type: b200, nodes: { gpu: 'A100' } }"],
    'must tell its GPUs from those of the entry above',
  ],
])('%s is refused with the driver of a cluster', (_name, [from = '', to = ''], says) => {
  const problems = load(CLUSTER.replace(from, to))
  expect(Array.isArray(problems) ? problems.join('\n') : problems).toContain(says)
})

test.each([
  ['apps.localhost', 9_811, 'apps.localhost:9811'],
  ['localhost', 9_811, 'localhost:9811'],
  ['apps.localhost', 80, 'apps.localhost'],
  ['apps.localhost', 0, 'apps.localhost'],
  ['apps.localhost:9000', 9_811, 'apps.localhost:9000'],
  ['apps.example.com', 9_811, 'apps.example.com'],
])('URLs of apps beneath %s have the port where callers reach %d themselves', (host, port, shown) => {
  expect(load(`${GOOD}  host: ${host}\n  port: ${port}\n`)).toMatchObject({ access: { host: shown, port } })
})

test.each([
  ['apps.example.com', { host: 'apps.example.com', isSecure: true, port: 8_081 }],
  ['apps.localhost:9000', { host: 'apps.localhost:9000', isSecure: false, port: 8_081 }],
])('the host of apps %s is read', (host, access) => {
  expect(load(`public_url: https://gateway.example.com\n${GOOD}  host: ${host}\n`)).toMatchObject({ access })
})

test.each(['gateway.example.com', 'example.com', 'Apps.example.com', 'https://apps.example.com', '10.0.0.1'])(
  'the host of apps %s is refused',
  (host) => {
    const problems = load(`public_url: https://gateway.example.com\n${GOOD}  host: ${host}\n`)
    expect(Array.isArray(problems) ? problems.join('\n') : problems).toContain('instances.host: must')
  },
)

test('is absent where the file has none', () => {
  expect(load('log_level: info\n')).toBeNull()
})

test.each([
  [
    'another driver',
    ['kind: command', 'kind: docker'],
    "instances.driver.kind: must be 'command', 'process' or 'kubernetes'",
  ],
  ['a path that is not absolute', ['/bin/cloud', 'cloud'], 'instances.driver.path: must be the absolute path'],
  ['no price', ['price_per_hour_microcents: 123456789, ', ''], "instances.gpu_types[0]: needs 'price_per_hour_cents'"],
  ['a negative price', ['123456789', '-1'], 'instances.gpu_types[0].price_per_hour_microcents: must not be negative'],
  ['two prices that disagree', ['disk_gb_max', 'price_per_hour_cents: 124, disk_gb_max'], 'disagrees'],
  ['less disk than one may have', ['disk_gb_total: 500', 'disk_gb_total: 50'], 'must be at most disk_gb_total'],
  ['an app that is nothing', ["image: 'server:1', ", ''], "instances.apps[0]: needs either 'image' or 'command'"],
  ['two apps of one name', ['name: tool', 'name: server'], 'instances.apps[1].name: is the name of an entry above'],
  ['a port that is none', ['port: 8080', 'port: 0'], 'instances.apps[0].port'],
  ['a cover under two billings', ['driver:', 'cover_seconds: 60\n  driver:'], 'instances.cover_seconds'],
  ['a key that there is not', ['driver:', 'regions: []\n  driver:'], 'instances.regions'],
])('%s is refused', (_name, [from = '', to = ''], says) => {
  const problems = load(GOOD.replace(from, to))
  expect(Array.isArray(problems) ? problems.join('\n') : problems).toContain(says)
})
