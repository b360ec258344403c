import { win32 } from 'node:path';
import { expect, it, vi } from 'vitest';
import { HubCache, repositoryOfSnapshot } from './cache/hub-cache.js';
import { parseGgufFile, parseRepository } from './repository.js';

vi.mock('node:path', async (load) => (await load<typeof import('node:path')>()).win32);

it.each([
  ...[
    'C:\\models\\x',
    'C:/models',
    'C:models/x',
    'C:\\models/x',
    'c:/x.gguf',
    'D:\\',
    '.\\x',
    '..\\x',
    './x',
  ],
  ...[
    'models\\x',
    'models\\org/x',
    '\\\\server\\share\\x',
    '//server/x',
    '\\\\?\\C:\\x',
    '\\models/x',
    '~\\x',
  ],
])('takes %s for a path, not for a model on the Hub', (path) => {
  expect(parseRepository(path)).toBeUndefined();
  expect(parseGgufFile(`${path}\\model.gguf`)).toBeUndefined();
  expect(parseGgufFile(`${path}/model.gguf`)).toBeUndefined();
});

it('has the folders of a model in the cache of Windows', () => {
  const commit = 'a'.repeat(40);
  const cache = new HubCache('C:\\Users\\me\\.cache\\huggingface\\hub', 'org/name');
  const folder = `${win32.join(cache.root, 'models--org--name')}\\snapshots\\${commit}`;
  expect(cache.snapshotPath(commit)).toBe(folder);
  expect(repositoryOfSnapshot(`${folder}\\config.json`)).toEqual({ name: 'org/name', commit });
});
