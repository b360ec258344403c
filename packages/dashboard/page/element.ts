type Child = Node | string | undefined;

export interface ElementOptions {
  readonly class?: string;
  readonly attributes?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly on?: Readonly<Record<string, (event: Event) => void>>;
}

/** Makes a new element. Strings become text nodes, so that names of runs cannot be interpreted as markup. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  options: ElementOptions = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  if (options.class !== undefined) made.className = options.class;
  for (const [attribute, value] of Object.entries(options.attributes ?? {})) {
    if (value !== undefined && value !== false)
      made.setAttribute(attribute, value === true ? '' : String(value));
  }
  for (const [event, listener] of Object.entries(options.on ?? {})) made.addEventListener(event, listener);
  made.append(...children.filter((child) => child !== undefined));
  return made;
}
