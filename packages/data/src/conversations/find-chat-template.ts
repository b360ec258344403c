import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { DataError } from '@mtl/errors';
import { endOfText } from '../tokenizers/gpt2-vocabulary.js';
import type { Tokenizer, TokenizerOptions } from '../tokenizers/tokenizer.js';
import { readTextFile, settingsIn } from '../tokenizers/tokenizer-files.js';
import { ChatTemplate } from './chat-template.js';

/**
 * Returns the chat template of a tokenizer: the file that its options name, or else `chat_template.jinja` or
 * the `chat_template` of tokenizer_config.json next to its tokenizer.json. Of several (a list there, or files
 * in `additional_chat_templates`) it is the one called `default`, and `tool_use` for conversations that have
 * functions.
 *
 * @throws DataError MTL_CHAT_TEMPLATE where it has none; those of `findChatTemplate`
 */
export function readChatTemplate(tokenizer: ChatTokenizer): ChatTemplate {
  const template = findChatTemplate(tokenizer);
  if (template !== undefined) return template;
  const directory = directoryOfTokenizer(tokenizer.options);
  const where = directory === undefined ? '' : ` of ${directory}`;
  throw new DataError('MTL_CHAT_TEMPLATE', `the tokenizer${where} has no chat template`, {
    expected: 'chat_template.jinja, or chat_template in tokenizer_config.json',
    remedy: 'pass --chat-template FILE, a template in Jinja such as that of an instruction-tuned model',
  });
}

/** Properties of a tokenizer that decide its chat template. */
type ChatTokenizer = Pick<Tokenizer, 'options' | 'specialIds' | 'specialTokens' | 'eod' | 'decode'>;

/**
 * Returns the chat template of a tokenizer, as `readChatTemplate`; undefined where it has none.
 *
 * @throws DataError MTL_CHAT_TEMPLATE for one that cannot be used; MTL_DATA_TOKENIZER for files that cannot
 *   be read
 */
export function findChatTemplate(tokenizer: ChatTokenizer): ChatTemplate | undefined {
  const { options } = tokenizer;
  const directory = directoryOfTokenizer(options);
  const config = directory === undefined ? {} : settingsIn(directory, 'tokenizer_config.json');
  const templates = named(options) ?? (directory === undefined ? undefined : templatesIn(directory, config));
  if (templates === undefined) return undefined;
  const tokens = { ...endOfDocument(tokenizer), ...tokenizer.specialTokens };
  const { template, toolUse } = templates;
  return new ChatTemplate({
    ...template,
    specialTokens: tokens,
    toolUse: toolUse && new ChatTemplate({ ...toolUse, specialTokens: tokens }),
  });
}

/** Returns the end of a document in templates, unless files name it. */
function endOfDocument({ specialIds, eod, decode }: ChatTokenizer): Readonly<Record<string, string>> {
  if (specialIds === undefined) return { bos_token: endOfText, eos_token: endOfText };
  return { eos_token: decode([eod]) };
}

interface TemplateText {
  readonly text: string;
  readonly name: string;
}

/** The templates of a tokenizer that anything here uses. */
interface UsedTemplates {
  readonly template: TemplateText;
  /** For conversations that have functions. */
  readonly toolUse?: TemplateText | undefined;
}

function named(options: TokenizerOptions | undefined): UsedTemplates | undefined {
  const path = options !== undefined && 'chatTemplate' in options ? options.chatTemplate : undefined;
  return path === undefined ? undefined : { template: { text: readTextFile(path), name: path } };
}

/** Returns the folder of the tokenizer's files, where it has one. */
export function directoryOfTokenizer(options: TokenizerOptions | undefined): string | undefined {
  if (options?.type !== 'HuggingFaceTokenizer') return undefined;
  const { tokenizerModel } = options;
  const isDirectory = statSync(tokenizerModel, { throwIfNoEntry: false })?.isDirectory() === true;
  return isDirectory ? tokenizerModel : dirname(tokenizerModel);
}

/** Finds the templates as the transformers library does: files before tokenizer_config.json. */
function templatesIn(
  directory: string,
  config: Readonly<Record<string, unknown>>,
): UsedTemplates | undefined {
  const files = templateFiles(directory);
  if (files.size > 0) return used(files, directory);
  const inConfig = config.chat_template;
  const name = `chat_template of ${join(directory, 'tokenizer_config.json')}`;
  if (typeof inConfig === 'string') return { template: { text: inConfig, name } };
  if (inConfig !== undefined && inConfig !== null) return used(listedTemplates(inConfig, name), name);
  const legacy = settingsIn(directory, 'chat_template.json').chat_template;
  if (typeof legacy !== 'string') return undefined;
  return { template: { text: legacy, name: join(directory, 'chat_template.json') } };
}

/** Returns the templates that are files, by their names: `default` is chat_template.jinja. */
function templateFiles(directory: string): ReadonlyMap<string, TemplateText> {
  const folder = join(directory, 'additional_chat_templates');
  const others =
    statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true ? readdirSync(folder) : [];
  const paths = [
    ['default', join(directory, 'chat_template.jinja')],
    ...others
      .filter((name) => name.endsWith('.jinja'))
      .map((name) => [basename(name, '.jinja'), join(folder, name)]),
  ] as const;
  return new Map(
    paths
      .filter(([, path]) => existsSync(path))
      .map(([name, path]) => [name, { text: readTextFile(path), name: path }]),
  );
}

/** Returns the templates of a list in tokenizer_config.json, by their names. */
function listedTemplates(templates: unknown, where: string): ReadonlyMap<string, TemplateText> {
  const list = (Array.isArray(templates) ? templates : []) as ({
    name?: unknown;
    template?: unknown;
  } | null)[];
  return new Map(
    list.flatMap((one) =>
      typeof one?.template === 'string'
        ? [[String(one.name), { text: one.template, name: `${where}, ${String(one.name)}` }] as const]
        : [],
    ),
  );
}

function used(templates: ReadonlyMap<string, TemplateText>, where: string): UsedTemplates {
  const only = templates.size === 1 ? [...templates.values()][0] : undefined;
  const template = templates.get('default') ?? only;
  if (template !== undefined) return { template, toolUse: templates.get('tool_use') };
  const names = [...templates.keys()].join(', ');
  throw new DataError('MTL_CHAT_TEMPLATE', `${where}: no template is called "default"`, {
    expected: `one template, or several with one called "default"${names === '' ? '' : `; it has ${names}`}`,
    remedy: 'pass --chat-template FILE with the one that is meant',
  });
}
