import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { root } from './packed-packages.mjs';
import { readmeExample } from './readme-example.mjs';

const examples = readdirSync(join(root, 'packages'))
  .map((name) => join(root, 'packages', name, 'README.md'))
  .filter((path) => existsSync(path))
  .map((path) => ({ path, example: readmeExample(path) }))
  .filter(({ example }) => example !== undefined);

// packed-packages.test.mjs runs the examples
it.each(examples)('the example of $path is preceded by how it is run', ({ example }) => {
  expect(example.isIntroduced).toBe(true);
});
