/** The theme of VitePress, with what pictures need on a phone. */
import theme from 'vitepress/theme';
import './style.css';

export default theme;
