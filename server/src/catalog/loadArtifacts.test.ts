import { expect, test } from 'bun:test'
import { inspect } from 'node:util'
import { loadSettings } from './load.ts'

const environment = { S3_ID: 'canary-id', S3_KEY: 'canary-key' }
const load = (text: string) => loadSettings(text, { environment, directory: '/etc/tollgate', fileExists: () => true })

function placeOf(text: string) {
  const loaded = load(text)
  if (!loaded.ok) throw new Error(loaded.problems.map(({ path, reason }) => `${path}: ${reason}`).join('\n'))
  return loaded.settings.fixed.artifacts
}

const store = (more = '', endpoint = 'http://127.0.0.1:9000') =>
  `artifacts:\n  s3: { endpoint: "${endpoint}", bucket: media, access_key_id_env: S3_ID, secret_access_key_env: S3_KEY${more} }\n`

test('a folder starts from that of the file, and is beneath the data directory where nothing is said', () => {
  expect(placeOf('')).toEqual({ kind: 'folder', path: null })
  expect(placeOf('artifacts: {}')).toEqual({ kind: 'folder', path: null })
  expect(placeOf('artifacts: { folder: clips }')).toEqual({ kind: 'folder', path: '/etc/tollgate/clips' })
  expect(placeOf('artifacts: { folder: /srv/clips }')).toEqual({ kind: 'folder', path: '/srv/clips' })
})

test('a store is read with its defaults, and shows no credential', () => {
  const place = placeOf(store('', 'https://s3.example.com/'))
  expect(place).toMatchObject({
    kind: 's3',
    endpoint: 'https://s3.example.com',
    region: 'us-east-1',
    bucket: 'media',
    prefix: 'tollgate/',
    virtualHosted: false,
  })
  if (place.kind !== 's3') throw new Error('it is a folder')
  expect([place.accessKeyId.reveal(), place.secretAccessKey.reveal()]).toEqual(['canary-id', 'canary-key'])
  expect(inspect(place)).not.toContain('canary')
  expect(placeOf(store(', region: auto, prefix: a/b/, virtual_hosted: true'))).toMatchObject({
    region: 'auto',
    prefix: 'a/b/',
    virtualHosted: true,
  })
  expect(placeOf(store(', prefix: ""'))).toMatchObject({ prefix: '' })
})

test.each([
  [store(', prefix: no-slash'), "must be empty or end in '/'"],
  [store(', access_key_id: canary-id'), 'a credential must not be in this file'],
  [store().replace('S3_KEY', 'MISSING'), 'MISSING is not set'],
  [store().replace('media', 'A'), "must be a bucket's name"],
  [store('', 's3.example.com'), "must be the store's address"],
  [store('', 'https://s3.example.com/bucket'), "must be the store's address"],
  [`${store()}  folder: here\n`, "can't be combined with 's3'"],
  ['artifacts: { s3: { bucket: media } }', 'is missing'],
  ['artifacts: { path: here }', "there is no setting 'path'"],
])('%p is refused', (text, reason) => {
  const loaded = load(text)
  const reasons = loaded.ok ? [] : loaded.problems.map((problem) => problem.reason)
  expect(reasons.join('\n')).toContain(reason)
  expect(reasons.join('\n')).not.toContain('canary')
})
