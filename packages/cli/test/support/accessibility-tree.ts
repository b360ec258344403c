import type { Page } from 'playwright-core';

/** An element as a browser describes it to screen readers. */
export interface AccessibleElement {
  readonly role: string;
  readonly name: string;
  readonly description: string;
  /** The text in it, also in elements within it. */
  readonly text: string;
  /** Its states by their names in the browser's protocol: `live`, `busy`, `disabled`, `valuetext` ... */
  readonly states: Readonly<Record<string, unknown>>;
}

interface ProtocolValue {
  readonly value?: unknown;
}

interface ProtocolNode {
  readonly nodeId: string;
  readonly ignored: boolean;
  readonly childIds?: readonly string[];
  readonly role?: ProtocolValue;
  readonly name?: ProtocolValue;
  readonly description?: ProtocolValue;
  readonly properties?: readonly { readonly name: string; readonly value: ProtocolValue }[];
}

/** Roles that carry text and layout alone. */
const silentRoles = ['RootWebArea', 'StaticText', 'InlineTextBox', 'generic', 'none', 'LabelText', 'Legend'];

/** Returns the elements of Chromium's own accessibility tree in the order of the document. */
export async function readAccessibilityTree(page: Page): Promise<readonly AccessibleElement[]> {
  const browser = await page.context().newCDPSession(page);
  const { nodes } = (await browser.send('Accessibility.getFullAXTree')) as { nodes: ProtocolNode[] };
  await browser.detach();
  const byId = new Map(nodes.map((node) => [node.nodeId, node]));
  const roleName = ({ role }: ProtocolNode): string => `${role?.value ?? 'none'}`;
  const walk = (node: ProtocolNode): readonly ProtocolNode[] => [
    node,
    ...(node.childIds ?? []).flatMap((id) => (byId.has(id) ? walk(byId.get(id)!) : [])),
  ];
  return walk(nodes[0]!)
    .filter((node) => !node.ignored && !silentRoles.includes(roleName(node)))
    .map((node) => ({
      role: roleName(node),
      name: `${node.name?.value ?? ''}`,
      description: `${node.description?.value ?? ''}`,
      text: walk(node)
        .filter((inner) => !inner.ignored && roleName(inner) === 'StaticText')
        .map((inner) => inner.name?.value)
        .join(''),
      states: Object.fromEntries((node.properties ?? []).map(({ name, value }) => [name, value.value])),
    }));
}
