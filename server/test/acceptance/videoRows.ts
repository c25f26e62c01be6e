/** The refusals of `/videos`. */

import { film } from './catalog.ts'
import { ofPaid, type Row, UUID } from './rows.ts'

const NO_UUID = '01900000-0000-7000-8000-000000000001'
const FORM = { 'Content-Type': 'multipart/form-data; boundary=x' }

const good = { path: '/videos', key: 'good' }
const invalid = { status: 422, code: 'validation_failed' }

/** Refusals of the routes of videos. A job that was accepted tells its failures itself. */
export function ofVideos(): [string, Row][] {
  return [...ofNewVideos(), ...ofListedVideos(), ...ofOneVideo()]
}

function ofNewVideos(): [string, Row][] {
  return [
    ...ofPaid('/videos', film, 'POST, GET, HEAD'),
    ['no prompt', { ...good, body: film({ prompt: undefined }), ...invalid, param: 'prompt' }],
    [
      'too many cancellations in progress',
      {
        path: '/videos',
        key: 'cancelled much',
        body: film(),
        status: 429,
        code: 'rate_limit_exceeded',
        retryAfter: 3_601,
        says: /60 videos in progress/,
      },
    ],
    ['seconds of nothing', { ...good, body: film({ seconds: 0 }), ...invalid, param: 'seconds' }],
    [
      'fewer seconds than the model makes',
      {
        ...good,
        body: film({ model: 'svc/sized-film', seconds: 1 }),
        status: 400,
        code: 'invalid_request',
        param: 'seconds',
        says: /2 to 10/,
      },
    ],
    [
      'more seconds than the model makes',
      { ...good, body: film({ seconds: 11 }), status: 400, code: 'invalid_request', param: 'seconds', says: /1 to 10/ },
    ],
    [
      'a size that the model does not make',
      {
        ...good,
        body: film({ model: 'svc/sized-film', size: '1x1' }),
        status: 400,
        code: 'invalid_request',
        param: 'size',
        says: /64x64/,
      },
    ],
    [
      'a size of a model that declares none',
      { ...good, body: film({ size: '64x64' }), status: 400, code: 'unsupported_parameter', param: 'size' },
    ],
    [
      'a file',
      {
        ...good,
        body: film({ input_reference: 'x' }),
        status: 400,
        code: 'unsupported_parameter',
        param: 'input_reference',
      },
    ],
    ['no form', { ...good, headers: FORM, body: 'x', status: 400, code: 'invalid_request' }],
  ]
}

function ofListedVideos(): [string, Row][] {
  return [
    ['a page of nothing', { path: '/videos?limit=0', key: 'good', ...invalid, param: 'limit' }],
    ['a page of too many', { path: '/videos?limit=201', key: 'good', ...invalid, param: 'limit' }],
    ['two lengths of a page', { path: '/videos?limit=1&limit=2', key: 'good', ...invalid, param: 'limit' }],
    ['a page behind no video', { path: `/videos?after=${NO_UUID}`, key: 'good', ...invalid, param: 'after' }],
    ['a page behind nothing', { path: '/videos?after=', key: 'good', ...invalid, param: 'after' }],
    ['an order that is none', { path: '/videos?order=up', key: 'good', ...invalid, param: 'order' }],
    [
      'a cursor',
      { path: '/videos?cursor=x', key: 'good', status: 400, code: 'unsupported_parameter', param: 'cursor' },
    ],
  ]
}

function ofOneVideo(): [string, Row][] {
  const none = { key: 'good', status: 404, code: 'not_found' }
  return [
    [
      'another variant',
      {
        path: `/videos/${UUID}/content?variant=thumbnail`,
        key: 'good',
        status: 400,
        code: 'unsupported_parameter',
        param: 'variant',
      },
    ],
    ['a video that is none', { path: '/videos/v1', ...none }],
    ['no video', { path: `/videos/${NO_UUID}`, ...none }],
    ['no content', { path: `/videos/${NO_UUID}/content`, ...none }],
    ['nothing to cancel', { path: `/videos/${NO_UUID}/cancel`, method: 'POST', ...none }],
    ["another's video", { path: `/videos/${UUID}`, ...none, key: 'chat only' }],
    ['a video whose time is over', { path: `/videos/${UUID}/content`, key: 'good', status: 410, code: 'expired' }],
  ]
}
