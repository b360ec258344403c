import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, sep } from 'node:path';
import { CheckpointError } from '@mtl/errors';

const fileNames = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'merges.txt',
  'vocab.txt',
  'tokenizer.model',
  'tokenizer.model.v3',
  'spiece.model',
  'sentencepiece.bpe.model',
  'tekken.json',
  'chat_template.jinja',
  'chat_template.json',
];

/**
 * The folder that contains a tokenizer's additional chat templates, as files NAME.jinja. The template called
 * `default` is not in this folder.
 */
const templateFolder = 'additional_chat_templates';

/**
 * Returns the paths of a tokenizer's files in a Hugging Face directory, including chat templates, by file
 * name. A template in the folder is named `additional_chat_templates/NAME.jinja`.
 *
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG if a template in that folder is a link to a path outside of
 *   the directory
 */
export function tokenizerFilesIn(directory: string): Readonly<Record<string, string>> {
  const names = fileNames.filter((name) => existsSync(join(directory, name)));
  return Object.fromEntries(
    [...names, ...templateNames(directory)].map((name) => [name, join(directory, name)]),
  );
}

function templateNames(directory: string): readonly string[] {
  const folder = join(directory, templateFolder);
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  const found = readdirSync(folder)
    .filter((name) => name.endsWith('.jinja') && statSync(join(folder, name)).isFile())
    .sort();
  for (const name of found) refuseForeign(directory, join(folder, name));
  return found.map((name) => `${templateFolder}/${name}`);
}

/**
 * Rejects a link to a file outside of the model's directory, because publishing the model would also publish
 * that file.
 */
function refuseForeign(directory: string, path: string): void {
  const real = realpathSync(directory);
  // in huggingface_hub's cache, links in models--NAME/snapshots/REVISION lead to models--NAME/blobs
  const isSnapshot = basename(dirname(real)) === 'snapshots';
  const own = isSnapshot ? dirname(dirname(real)) : real;
  const target = realpathSync(path);
  if (target.startsWith(own + sep)) return;
  throw new CheckpointError('MTL_HUGGING_FACE_CONFIG', `${path} is a link to ${target}`, {
    expected: 'a file of the directory',
    remedy: 'put a copy in its place, or delete it',
    exitCode: 2,
  });
}
