import { CheckpointError } from '@mtl/errors';
import { isJsonObject } from '@mtl/errors/files';
import type { HubRepository } from '../repository.js';
import type { HubClient } from '../requests/hub-client.js';
import { refusedRequest } from '../requests/refused-request.js';
import type { HubFile } from './download-blob.js';

/**
 * Reads the commit to which a revision points, and the list of its files with sizes and hashes: `GET
 * /api/models/ORG/NAME/revision/REVISION?blobs=true`.
 *
 * https://huggingface.co/docs/hub/api
 *
 * @throws errors of `HubClient.send` and `refusedRequest`; CheckpointError MTL_HUB_ANSWER for an answer in
 *   an unexpected form
 */
export async function readRepositoryFiles(options: {
  readonly client: HubClient;
  readonly repository: HubRepository;
}): Promise<{ readonly commit: string; readonly files: ReadonlyMap<string, HubFile> }> {
  const { client, repository } = options;
  const { name, revision } = repository;
  const { endpoint } = client.settings;
  const url = `${endpoint}/api/models/${name}/revision/${encodeURIComponent(revision)}?blobs=true`;
  const response = await client.send(url);
  if (!response.ok) throw await refusedRequest({ client, response, name, revision });
  const answer: unknown = await response.json().catch(() => undefined);
  const commit = isJsonObject(answer) ? answer.sha : undefined;
  const siblings = isJsonObject(answer) ? answer.siblings : undefined;
  if (typeof commit !== 'string' || !/^[0-9a-f]{40}$/.test(commit) || !Array.isArray(siblings)) {
    throw new CheckpointError('MTL_HUB_ANSWER', `${client.host} does not answer as a Hub about ${name}`, {
      expected: 'the commit of the revision, and its files',
      remedy:
        'check HF_ENDPOINT and HTTPS_PROXY: a page of a proxy or of another server may have come in its place',
    });
  }
  const listed = siblings.flatMap((each: unknown) => parseFile(each) ?? []);
  return { commit, files: new Map(listed.map((each) => [each.file, each])) };
}

/**
 * Parses an entry of the list of files. Returns undefined if the entry lacks data for fetching and checking
 * the file.
 */
function parseFile(entry: unknown): HubFile | undefined {
  if (!isJsonObject(entry)) return undefined;
  const { rfilename: file, size, blobId, lfs } = entry;
  const large = isJsonObject(lfs) ? lfs : undefined;
  const bytes = large?.size ?? size;
  const etag = large?.sha256 ?? blobId;
  if (typeof file !== 'string' || !Number.isSafeInteger(bytes) || typeof etag !== 'string') return undefined;
  // checked strictly, because the hash becomes a local file name
  if (!/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(etag) || (bytes as number) < 0) return undefined;
  return { file, bytes: bytes as number, etag };
}
