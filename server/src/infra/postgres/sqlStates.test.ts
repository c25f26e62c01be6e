import { expect, test } from 'bun:test'
import { type DatabaseFault, faultOfState } from './sqlStates.ts'

type Row = [DatabaseFault['answer'], DatabaseFault['outcome'], mayTryAgain: boolean, DatabaseFault['connection']]

const AWAY: Row = ['unavailable', 'unknown', true, 'lost']
const NOT_LET_IN: Row = ['unavailable', 'not_done', true, 'lost']
const NOT_NOW: Row = ['unavailable', 'not_done', true, 'kept']
const REFUSED_DATA: Row = ['broken', 'not_done', false, 'kept']
const BROKEN: Row = ['broken', 'not_done', true, 'kept']

test.each([
  ['08000', 'connection exception', AWAY],
  ['08006', 'connection failure', AWAY],
  ['57P01', 'the server is shut down', AWAY],
  ['57P02', 'another process of the server crashed', AWAY],
  ['57P04', 'the database was dropped', AWAY],
  ['57P05', 'the connection was idle for too long', AWAY],
  ['53300', 'too many connections', NOT_LET_IN],
  ['57P03', 'the server starts or stops', NOT_LET_IN],
  ['25P03', 'a transaction was idle for too long', NOT_LET_IN],
  ['40001', 'two transactions can not both be', NOT_NOW],
  ['40P01', 'deadlock', NOT_NOW],
  ['53100', 'the disk is full', NOT_NOW],
  ['53200', 'out of memory', NOT_NOW],
  ['53400', 'a limit of its settings', NOT_NOW],
  ['55P03', 'a lock was not to be had in time', NOT_NOW],
  ['57014', 'timeout of the statement', NOT_NOW],
  ['58030', 'the disk fails', NOT_NOW],
  ['40003', 'nobody knows whether it was carried out', ['unavailable', 'unknown', true, 'kept']],
  ['25006', 'a standby, or read-only', ['unavailable', 'not_done', true, 'wrong']],
  ['28P01', 'wrong password', ['unavailable', 'not_done', true, 'refused']],
  ['3D000', 'no such database', ['unavailable', 'not_done', true, 'refused']],
  ['22003', 'a number out of range', REFUSED_DATA],
  ['23505', 'a key that is there already', REFUSED_DATA],
  ['42P01', 'no such table', BROKEN],
  ['42501', 'not allowed', BROKEN],
  ['25P02', 'a transaction that has failed', BROKEN],
  ['XX000', 'a bug of the server', BROKEN],
  ['P0001', 'raised by a function of the database', BROKEN],
] as const)('%s: %s', (state, _, [answer, outcome, mayTryAgain, connection]) => {
  expect(faultOfState(state)).toEqual({ answer, outcome, mayTryAgain, connection })
})
