/** The routes of videos. */

import { z } from 'zod'
import { apiKey } from '../http/access.ts'
import { type DescribedHeaders, etagHeaders } from '../http/describedHeaders.ts'
import type { Route } from '../http/route.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import { showContent } from './clip/http.ts'
import { findOwn } from './find.ts'
import {
  cancelVideo,
  createVideos,
  ESTIMATE_HEADER,
  POSITION_HEADER,
  showVideo,
  showVideos,
  type VideoEndpoints,
} from './http.ts'
import { VIDEOS_PARAMETERS, videoCreateRequest, videoJob, videoList, videosQuery } from './schemas.ts'

export interface VideoRouteDependencies {
  readonly videos: VideoEndpoints
  readonly reads: Queryable
}

const READ = apiKey('serverless:read')
const WRITE = apiKey('serverless:write')

const outlookHeaders: DescribedHeaders = {
  [POSITION_HEADER]: {
    description: "The place of a waiting job among your organization's jobs for the model; 1000 means 1000 or more.",
    schema: { type: 'integer', minimum: 1 },
  },
  [ESTIMATE_HEADER]: {
    description:
      'In how many seconds from now a job that has not ended is likely to be complete: `<soonest>-<latest>`. Absent until ' +
      'three jobs of the model have been completed.',
    schema: { type: 'string', pattern: '^\\d+-\\d+$' },
  },
}

const fileHeaders: DescribedHeaders = {
  ...etagHeaders,
  'Last-Modified': { description: 'The time of completion.', required: true, schema: { type: 'string' } },
  'Accept-Ranges': {
    description: 'The file can be requested in parts.',
    required: true,
    schema: { type: 'string', const: 'bytes' },
  },
}

const rangeHeader: DescribedHeaders = {
  'Content-Range': { description: 'The bytes sent, and the file size.', required: true, schema: { type: 'string' } },
}

const fileConditions = z.object({
  Range: z.string().optional().meta({ description: 'One range of bytes; several are answered with the whole file.' }),
  'If-Range': z.string().optional().meta({ description: 'Range applies only to the file with this ETag or date.' }),
  'If-None-Match': z.string().optional().meta({ description: 'ETags that the client already has.' }),
})

/** Beneath /v1. */
export function videoRoutes(dependencies: VideoRouteDependencies): Route[] {
  return [...routesOfAll(dependencies), ...routesOfOne(dependencies)]
}

const path = z.object({ id: z.string() })
const job = { 'application/json': videoJob }
const file = { 'video/mp4': z.string().meta({ format: 'binary' }) }

function routesOfAll({ videos, reads }: VideoRouteDependencies): Route[] {
  return [
    {
      method: 'POST',
      path: '/videos',
      access: WRITE,
      body: 'form',
      takesPlace: true,
      prepare: createVideos(videos),
      describe: {
        operationId: 'createVideo',
        summary: 'Create a video',
        description:
          'Answers at once; the video is made in the background. The body may also be a multipart form, without files. ' +
          'The price of all requested seconds is held. At completion the seconds of the clip are charged. ' +
          'A job that fails, is cancelled or expires costs nothing. An organization may have only so many jobs waiting, 500 by ' +
          'default (429).',
        requestBody: videoCreateRequest,
        responses: { 202: { description: 'The job, queued.', content: job } },
        refusals: [402, 404],
      },
    },
    {
      method: 'GET',
      path: '/videos',
      access: READ,
      query: VIDEOS_PARAMETERS,
      handle: showVideos({ ...videos, database: reads }),
      describe: {
        operationId: 'listVideos',
        summary: 'List video jobs',
        requestParams: { query: videosQuery },
        responses: { 200: { description: 'A page of jobs.', content: { 'application/json': videoList } } },
        refusals: [422],
      },
    },
  ]
}

function routesOfOne({ videos, reads }: VideoRouteDependencies): Route[] {
  return [
    {
      method: 'GET',
      path: '/videos/{id}',
      access: READ,
      handle: showVideo({ ...videos, database: reads }),
      describe: {
        operationId: 'retrieveVideo',
        summary: 'Retrieve a video job',
        description:
          `While it waits, \`${POSITION_HEADER}\` is its place among your organization's jobs for the model (1000 ` +
          `means 1000 or more). Until it ends, \`${ESTIMATE_HEADER}\` says in how many seconds it is likely to be complete, ` +
          'such as `40-95`. It is absent until three jobs of the model have been completed.',
        requestParams: { path },
        responses: { 200: { description: 'The job.', content: job, headers: outlookHeaders } },
        refusals: [404],
      },
    },
    {
      method: 'GET',
      path: '/videos/{id}/content',
      access: READ,
      query: ['variant'],
      takesPlace: true,
      handle: showContent({ ...videos, find: (...own) => findOwn(reads, ...own) }),
      describe: {
        operationId: 'downloadVideo',
        summary: 'Download a video',
        description: 'For 24 hours after completion. Takes `Range`, `If-Range` and `If-None-Match`.',
        requestParams: { path, query: z.object({ variant: z.enum(['video']).optional() }), header: fileConditions },
        responses: {
          200: { description: 'The file.', content: file, headers: fileHeaders },
          206: { description: 'The part in the Range.', content: file, headers: { ...fileHeaders, ...rangeHeader } },
          304: { description: 'Unchanged since the ETag in If-None-Match.', headers: fileHeaders },
        },
        refusals: [404, 410, 416, 422],
        refusalHeaders: { 416: { ...fileHeaders, ...rangeHeader } },
      },
    },
    {
      method: 'POST',
      path: '/videos/{id}/cancel',
      access: WRITE,
      ignoresBody: true,
      prepare: cancelVideo(videos),
      describe: {
        operationId: 'cancelVideo',
        summary: 'Cancel a video job',
        description:
          'A job that has ended, or whose video is already made, is returned unchanged. Cancelling is free and never refused. ' +
          'After many cancelled jobs in progress, an organization must wait before it can create the next (429).',
        requestParams: { path },
        responses: { 200: { description: 'The job as it is now.', content: job } },
        refusals: [404],
      },
    },
  ]
}
