/**
 * A plugin of markdown-it: cells carry the heading of their column, so that style.css can show a row of a wide table
 * as a list on a phone. Tables of two columns fit; those with numbers, whose columns are aligned, scroll.
 */
export function stackedTables(md) {
  // The rule of VitePress drops attributes.
  md.renderer.rules.table_open = (tokens, i, options, _env, self) => {
    tokens[i].attrSet('tabindex', '0');
    return self.renderToken(tokens, i, options);
  };
  md.core.ruler.push('stacked-tables', ({ tokens }) => {
    let table;
    let headings = [];
    let column = 0;
    tokens.forEach((token, i) => {
      if (token.type === 'table_open') [table, headings] = [token, []];
      else if (token.type === 'tr_open') column = 0;
      else if (token.type === 'th_open') {
        if (token.attrGet('style') !== null) table = undefined;
        headings.push(plainText(tokens[i + 1]));
        if (headings.length === 3) table?.attrJoin('class', 'stacked');
      } else if (token.type === 'td_open') token.attrSet('data-label', headings[column++] ?? '');
    });
  });
}

function plainText(inline) {
  return inline.children.map(({ content }) => content).join('');
}
