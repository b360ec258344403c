import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';
import { checkOptions, choiceOption, type OptionChecks, required, textOption } from '@mtl/errors/options';
import { onnxDtypeNames, publishDirectory } from '@mtl/formats/internal';
import type { OnnxDtype } from '@mtl/formats/onnx';
import type { GptModelConfiguration } from '@mtl/models';
import { pageFiles } from '../../page-files.js';
import { type OpenedModel, openCheckpointModel, openHuggingFaceModel } from '../conversion/open-model.js';
import { iterationOption, noticesOption } from '../option-checks.js';
import { describeLicenses, findRuntimeFiles, importMap, type PageDevice } from './runtime-files.js';

interface ToPage {
  /** A new or empty directory. */
  readonly directory: string;
  /** The dtype of the weights. Default: q8, the smallest dtype with which every browser computes fast. */
  readonly dtype?: OnnxDtype | undefined;
  readonly onNotice: (notice: string) => void;
}

interface CheckpointToPageOptions extends ToPage {
  /** A directory of checkpoints of a GPT. */
  readonly load: string;
  /** The iteration. Default: the newest complete checkpoint. */
  readonly checkpointStep?: number | undefined;
}

interface HuggingFaceToPageOptions extends ToPage {
  /** A transformers directory with a GPT, or a model name on the Hub (`org/name`). */
  readonly loadHuggingFace: string;
  /** A directory with the model's adapters in PEFT's format, which are merged. Default: none. */
  readonly loadLora?: string | undefined;
}

const ownChecks = {
  directory: required(textOption),
  dtype: choiceOption(onnxDtypeNames),
  onNotice: required(noticesOption),
};
const checks: OptionChecks<CheckpointToPageOptions> = {
  ...ownChecks,
  load: required(textOption),
  checkpointStep: iterationOption,
};
const checksOfHuggingFace: OptionChecks<HuggingFaceToPageOptions> = {
  ...ownChecks,
  loadHuggingFace: required(textOption),
  loadLora: textOption,
};

/** The result of writing a page. */
interface WrittenPage {
  readonly source: string;
  readonly dtype: OnnxDtype;
}

/**
 * Writes a web page that runs a checkpoint of a GPT in the browser. The page is a folder for any static
 * server, with the model, transformers.js and ONNX Runtime. Both libraries must be installed for the working
 * directory.
 *
 * @throws ConfigurationError MTL_OPTION, MTL_PAGE_RUNTIME, MTL_PAGE_MODEL for a BERT; CheckpointError
 *   MTL_PAGE_EXISTS, MTL_PAGE_IO; the errors of `checkpointToOnnx`
 */
export async function checkpointToPage(options: CheckpointToPageOptions): Promise<WrittenPage> {
  checkOptions(options, { of: 'checkpointToPage', checks });
  const runtime = findRuntimeFiles(process.cwd(), listDevices(options));
  return await writePage(await openCheckpointModel(options), { ...options, runtime });
}

/**
 * Writes a web page that runs a GPT of the transformers library in the browser (see `checkpointToPage`).
 *
 * @throws the errors of `checkpointToPage` and `huggingFaceToOnnx`
 */
export async function huggingFaceToPage(options: HuggingFaceToPageOptions): Promise<WrittenPage> {
  checkOptions(options, { of: 'huggingFaceToPage', checks: checksOfHuggingFace });
  const runtime = findRuntimeFiles(process.cwd(), listDevices(options));
  const opened = await openHuggingFaceModel({ ...options, refused: 'MTL_PAGE_MODEL' });
  return await writePage(opened, { ...options, runtime });
}

type Runtime = ReturnType<typeof findRuntimeFiles>;

/**
 * Returns the devices on which a page may compute. GPUs are used only for floats, because matrices of bytes
 * would be read back to the CPU for each layer.
 */
const listDevices = ({ dtype = 'q8' }: ToPage): readonly PageDevice[] =>
  dtype === 'fp32' || dtype === 'fp16' ? ['wasm', 'webgpu'] : ['wasm'];

async function writePage(
  { kind, model, tensors, tokenizerFiles, endTokens, origin, name, source, close }: OpenedModel,
  { directory: target, dtype = 'q8', runtime }: ToPage & { readonly runtime: Runtime },
): Promise<WrittenPage> {
  try {
    if (kind === 'bert') {
      throw new ConfigurationError('MTL_PAGE_MODEL', `${source} is a BERT, which continues no text`, {
        expected: 'a GPT',
        remedy: 'write it with --to onnx DIR, and call it from a page of your own',
      });
    }
    const codes = { exists: 'MTL_PAGE_EXISTS', failed: 'MTL_PAGE_IO' } as const;
    await publishDirectory({ directory: target, ...codes }, async (directory) => {
      const { writeOnnxGpt } = await import('@mtl/formats/onnx');
      await writeOnnxGpt({
        directory: join(directory, 'model'),
        model: model as GptModelConfiguration,
        tensors,
        dtypes: [dtype],
        tokenizerFiles,
        endTokens,
        origin,
      });
      await copyRuntime(join(directory, 'runtime'), runtime);
      await writePageFiles(directory, { runtime, name, dtype, maxPositions: model.maxPositionEmbeddings });
    });
  } finally {
    await close();
  }
  return { source, dtype };
}

async function copyRuntime(folder: string, { files, versions }: Runtime): Promise<void> {
  await mkdir(folder);
  for (const { name, path } of files) await copyFile(path, join(folder, name));
  await writeFile(join(folder, 'LICENSES.txt'), describeLicenses(versions));
}

interface DescribedPage {
  readonly runtime: Runtime;
  readonly name: string;
  readonly dtype: OnnxDtype;
  readonly maxPositions: number;
}

/**
 * The page's own files, apart from `index.html`, into which the model's name and the security policy are
 * inserted.
 */
const ownFiles = ['page.css', 'page.js', 'device.js', 'onnxruntime.js'] as const;

async function writePageFiles(directory: string, { runtime, ...page }: DescribedPage): Promise<void> {
  const imports = JSON.stringify({ imports: importMap });
  const html = await readFile(join(pageFiles, 'index.html'), 'utf8');
  const texts = { POLICY: makePolicy(imports), '"IMPORTS"': imports, NAME: escapeHtml(page.name) };
  await writeFile(
    join(directory, 'index.html'),
    html.replace(/POLICY|"IMPORTS"|NAME/g, (word) => texts[word as keyof typeof texts]),
  );
  for (const file of ownFiles) await copyFile(join(pageFiles, file), join(directory, file));
  const { chat_template: template } = JSON.parse(
    await readFile(join(directory, 'model/tokenizer_config.json'), 'utf8'),
  ) as { chat_template?: string };
  const facts = {
    ...page,
    hasChatTemplate: template !== undefined,
    modelBytes: await sumBytes(join(directory, 'model')),
    runtimeBytes: await sumRuntime(runtime, 'wasm'),
    ...(runtime.files.some(({ device }) => device === 'webgpu') && {
      gpuRuntimeBytes: await sumRuntime(runtime, 'webgpu'),
    }),
  };
  await writeFile(join(directory, 'page.json'), `${JSON.stringify(facts, null, 2)}\n`);
}

/**
 * Returns a content security policy for a page that loads nothing from other sites, and whose only inline
 * code is the import map.
 */
function makePolicy(imports: string): string {
  const hash = createHash('sha256').update(imports).digest('base64');
  return [
    "default-src 'none'",
    `script-src 'self' 'wasm-unsafe-eval' 'sha256-${hash}'`,
    "worker-src 'self'",
    "connect-src 'self'",
    "style-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** Returns the number of bytes that a page loads to compute on `device`. */
async function sumRuntime({ files }: Runtime, device: PageDevice): Promise<number> {
  const needed = files.filter(
    ({ name, device: only = device }) => only === device && !name.startsWith('LICENSE'),
  );
  const sizes = await Promise.all(needed.map(async ({ path }) => (await stat(path)).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

async function sumBytes(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const sizes = await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async (entry) => (await stat(join(entry.parentPath, entry.name))).size),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
