import { describe, expect, test } from 'bun:test'
import { RouteTable, splitUrl } from './routeTable.ts'

const table = new RouteTable<string>()
table.add('GET', '/v1/health', 'health')
table.add('GET', '/v1/videos/{id}', 'video')
table.add('GET', '/v1/videos/{id}/content', 'content')
table.add('GET', '/v1/models/{id...}', 'model')

const find = (path: string) => {
  const found = table.find(path)
  return found === null ? null : [found.methods.get('GET'), ...found.parameters]
}

describe('the fixed parts of a path are compared as they were sent', () => {
  test.each([
    ['/v1/health', ['health']],
    ['/v1/%68ealth', null],
    ['/v1/%2e/health', null],
    ['/v1/./health', null],
    ['/v1/x/../health', null],
    ['/v1//health', null],
    ['//v1/health', null],
    ['/v1/health/', null],
    ['/aa/v1/health', null],
    ['/%76ideos/x', null],
    ['/v1/%76ideos/x', null],
    ['/v1/videos%2Fx', null],
    ['/v1/videos/x/%63ontent', null],
    ['/v1/%6dodels/svc/demo', null],
    ['/v1/videos/{id}', ['video', '{id}']],
  ])('%s: %j', (path, expected) => {
    expect(find(path)).toEqual(expected)
  })
})

describe('parameters are decoded, once', () => {
  test.each([
    ['/v1/videos/a%62c', ['video', 'abc']],
    ['/v1/videos/a%2Fb/content', ['content', 'a/b']],
    ['/v1/videos/%2e%2e', ['video', '..']],
    ['/v1/videos/a%2525', ['video', 'a%25']],
    ['/v1/videos/%zz', ['video', '%zz']],
    ['/v1/models/svc/full', ['model', 'svc/full']],
    ['/v1/models/svc%2ffull', ['model', 'svc/full']],
    ['/v1/models/svc%252Ffull', ['model', 'svc%2Ffull']],
    ['/v1/models/svc%2Ffull%3Aeconomy', ['model', 'svc/full:economy']],
    ['/v1/models/%ff', ['model', '%ff']],
    ['/v1/models/', ['model', '']],
  ])('%s: %j', (path, expected) => {
    expect(find(path)).toEqual(expected)
  })
})

test.each([
  ['http://h/v1/x?a=1', '/v1/x', 'a=1'],
  ['http://h/v1/x?a=http://b/c', '/v1/x', 'a=http://b/c'],
  ['http://h/v1/x#y?z', '/v1/x', ''],
  ['/v1/x?a=1', '/v1/x', 'a=1'],
  ['/aa/v1/health', '/aa/v1/health', ''],
  ['/aa?x=http://h/v1/health', '/aa', 'x=http://h/v1/health'],
  ['//v1/health', '//v1/health', ''],
])('%s has the path %s and the query %s', (url, path, query) => {
  expect(splitUrl(url)).toEqual({ path, query })
})
