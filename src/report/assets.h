/* Files embedded into the program: page.js is sl_asset_page_js. cmake/SluiceRooms.cmake generates
 * the arrays. */
#ifndef SL_REPORT_ASSETS_H
#define SL_REPORT_ASSETS_H

#include <stddef.h>

extern const unsigned char sl_asset_chart_css[], sl_asset_chart_js[], sl_asset_page_css[],
    sl_asset_page_js[];
extern const size_t sl_asset_chart_css_size, sl_asset_chart_js_size, sl_asset_page_css_size,
    sl_asset_page_js_size;

#endif
