import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { DataError } from '@mtl/errors';
import { fileProblem, isJsonObject, readRegularFile } from '@mtl/errors/files';
import { ChatTemplate } from './chat-template.js';

/**
 * The maximum size of a template file, in bytes. The limit is high because some tokenizer_config.json files
 * also list their tokens.
 */
const maximumBytes = 64 * 2 ** 20;

/**
 * Opens the chat template of a downloaded model: `chat_template.jinja`, or `chat_template` in
 * tokenizer_config.json. A model may have several templates, as a list in tokenizer_config.json or as files
 * in `additional_chat_templates`. Then conversations with functions use the template `tool_use`, and other
 * conversations use `default`. The strings of `bos_token`, `eos_token` and so on come from
 * tokenizer_config.json and special_tokens_map.json.
 * @param specialTokens strings for names such as `bos_token`, which override the files
 * @throws DataError MTL_CHAT_TEMPLATE if the folder has no template, or if a template cannot be read or used
 */
export function openChatTemplate(
  directory: string,
  { specialTokens = {} }: { readonly specialTokens?: Readonly<Record<string, string>> } = {},
): ChatTemplate {
  const templates = savedTemplates(directory);
  if (templates !== undefined) return templates.open({ ...savedTokens(directory), ...specialTokens });
  throw new DataError('MTL_CHAT_TEMPLATE', `${directory} has no chat template`, {
    expected: 'chat_template.jinja, or chat_template in tokenizer_config.json',
    remedy: 'name the folder of a model that was tuned on conversations',
  });
}

/** The source of a template, and its name in error messages. */
interface TemplateText {
  readonly text: string;
  readonly name: string;
}

/** The templates of a folder: the default template, and the template for conversations with functions. */
interface SavedTemplates {
  /** Opens the templates, which use the given strings for `bos_token` and so on. */
  readonly open: (specialTokens: Readonly<Record<string, string>>) => ChatTemplate;
}

/**
 * Finds the templates in a folder. As in the transformers library, template files override
 * tokenizer_config.json. Returns undefined if the folder has no template.
 * @throws DataError MTL_CHAT_TEMPLATE if a template cannot be read
 */
export function savedTemplates(directory: string): SavedTemplates | undefined {
  const files = templateFiles(directory);
  if (files.size > 0) return used(files, directory);
  const inConfig = settingsIn(directory, 'tokenizer_config.json').chat_template;
  const name = `chat_template of ${join(directory, 'tokenizer_config.json')}`;
  if (typeof inConfig === 'string') return opened({ text: inConfig, name });
  if (inConfig !== undefined && inConfig !== null) return used(listedTemplates(inConfig, name), name);
  const legacy = settingsIn(directory, 'chat_template.json').chat_template;
  if (typeof legacy !== 'string') return undefined;
  return opened({ text: legacy, name: join(directory, 'chat_template.json') });
}

/**
 * Reads a template file.
 * @throws DataError MTL_CHAT_TEMPLATE if the file cannot be read
 */
export function readTemplateFile(path: string): TemplateText {
  return { text: readText(path), name: path };
}

const opened = (template: TemplateText, toolUse?: TemplateText): SavedTemplates => ({
  open: (specialTokens) =>
    new ChatTemplate({
      ...template,
      specialTokens,
      toolUse: toolUse && new ChatTemplate({ ...toolUse, specialTokens }),
    }),
});

/**
 * Returns the templates that are separate files, keyed by name. The name of chat_template.jinja is `default`.
 */
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
    paths.filter(([, path]) => existsSync(path)).map(([name, path]) => [name, readTemplateFile(path)]),
  );
}

/** Returns the templates of a list in tokenizer_config.json, keyed by name. */
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

function used(templates: ReadonlyMap<string, TemplateText>, where: string): SavedTemplates {
  const only = templates.size === 1 ? [...templates.values()][0] : undefined;
  const template = templates.get('default') ?? only;
  if (template !== undefined) return opened(template, templates.get('tool_use'));
  const names = [...templates.keys()].join(', ');
  throw new DataError('MTL_CHAT_TEMPLATE', `${where}: no template is called "default"`, {
    expected: `one template, or several with one called "default"${names === '' ? '' : `; it has ${names}`}`,
    remedy: 'call one template "default", or pass a template (--chat-template FILE of the command line)',
  });
}

/** Returns the strings of special tokens from the files of a folder, keyed by names such as `bos_token`. */
function savedTokens(directory: string): Readonly<Record<string, string>> {
  const stated = ['tokenizer_config.json', 'special_tokens_map.json'].flatMap((name) =>
    Object.entries(settingsIn(directory, name)),
  );
  return Object.fromEntries(
    stated.flatMap(([name, value]) => {
      const text = isJsonObject(value) ? value.content : value;
      return name.endsWith('_token') && typeof text === 'string' ? [[name, text]] : [];
    }),
  );
}

/** Returns the settings in a JSON file; an empty object if the file does not exist. */
function settingsIn(directory: string, name: string): Readonly<Record<string, unknown>> {
  const path = join(directory, name);
  if (!existsSync(path)) return {};
  let settings: unknown;
  try {
    settings = JSON.parse(readText(path));
  } catch (cause) {
    if (cause instanceof DataError) throw cause;
    throw unreadable(path, `is not JSON: ${(cause as Error).message}`, cause);
  }
  if (isJsonObject(settings)) return settings;
  throw unreadable(path, 'is not a JSON object');
}

function readText(path: string): string {
  try {
    return readRegularFile(path, maximumBytes).toString('utf8');
  } catch (cause) {
    throw unreadable(path, fileProblem(cause), cause);
  }
}

const unreadable = (path: string, problem: string, cause?: unknown): DataError =>
  new DataError('MTL_CHAT_TEMPLATE', `${path}: ${problem}`, {
    expected: 'a file of a model as it was published',
    remedy: 'check the path and its permissions, or download the file again',
    cause,
  });
